// FNV-1a of 64 bits (Fowler, Noll, Vo): a hash that is the same in every program, so that seeds and data do
// not depend on the machine. Not for input that was made to collide.
#pragma once

#include <cstdint>

namespace trilith::inline v0 {

class Fnv1a {
 public:
  constexpr void add(char c) { value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u; }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace trilith::inline v0
