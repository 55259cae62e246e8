// A line of a kernel, so that the emulator can name it: the default argument of every primitive.
#pragma once

#include <string>

namespace trilith::inline v0::simt {

struct Place {
  const char* file = "";
  int line = 0;

  // The line of the call whose default argument this is.
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }

  // By address: a file's name is one literal.
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

inline std::string to_string(const Place& place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

}  // namespace trilith::inline v0::simt
