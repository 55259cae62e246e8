// Precision<F32>: the type in which weights and activations are stored.
#pragma once

#include <type_traits>

namespace trilith::inline v0 {

struct F32 {
  using storage = float;
};

template <class Format>
struct Precision;

struct PrecisionCategory {
  using default_policy = Precision<F32>;
};

template <class Format>
struct Precision {
  static_assert(std::is_same_v<Format, F32>,
                "Precision: the host device computes in F32; write Precision<F32>");
  using category = PrecisionCategory;
  using format = Format;
};

}  // namespace trilith::inline v0
