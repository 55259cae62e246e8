// The one exception of the library: what went wrong, where, and what to do about it.
//
// Inner code throws `Error{what, remedy}`. A world adds the rank and its coordinate as the error leaves
// the rank's thread, so inner code need not know where it runs. Control characters, which a name in a foreign
// file may have, are shown as \x1B.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace trilith::inline v0 {

class Error : public std::runtime_error {
 public:
  // `problem` is a sentence without a full stop; `remedy` says what would be right.
  Error(std::string problem, std::string remedy, std::string where = "")
      : std::runtime_error(compose(problem, remedy, where)),
        problem_(std::move(problem)),
        remedy_(std::move(remedy)),
        where_(std::move(where)) {}

  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }
  const std::string& where() const { return where_; }

  // The same error, said to come from `place` unless it already names one.
  [[nodiscard]] Error at(const std::string& place) const {
    return where_.empty() ? Error(problem_, remedy_, place) : *this;
  }

 private:
  static std::string compose(const std::string& problem, const std::string& remedy,
                             const std::string& where) {
    const std::string text = where.empty() ? problem : where + ": " + problem;
    return printable(remedy.empty() ? text : text + "; " + remedy);
  }

  static std::string printable(const std::string& text) {
    constexpr const char* digits = "0123456789ABCDEF";
    std::string shown;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte != 0x7F) {
        shown += c;
      } else {
        shown += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
      }
    }
    return shown;
  }

  std::string problem_;
  std::string remedy_;
  std::string where_;
};

// Throws Error{problem, remedy} unless `holds`. Both texts are built at every call, so this is for the
// front door; a hot path tests first and throws by itself.
inline void require(bool holds, const std::string& problem, const std::string& remedy) {
  if (!holds) throw Error(problem, remedy);
}

}  // namespace trilith::inline v0
