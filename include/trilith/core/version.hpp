// The version of the library, and the inline namespace that carries it into every symbol.
//
// Every public name lives in `trilith::v0`, which is inline: users write `trilith::Config`. Two versions
// of the headers in one program therefore have different symbols instead of silently sharing them.
#pragma once

#define TRILITH_VERSION_MAJOR 0
#define TRILITH_VERSION_MINOR 1
#define TRILITH_VERSION_PATCH 0

namespace trilith::inline v0 {

struct Version {
  int major;
  int minor;
  int patch;
  friend constexpr bool operator==(const Version&, const Version&) = default;
};

inline constexpr Version version{TRILITH_VERSION_MAJOR, TRILITH_VERSION_MINOR, TRILITH_VERSION_PATCH};

}  // namespace trilith::inline v0
