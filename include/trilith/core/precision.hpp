// Precision<Bf16>: the format of weights, as layers compute with them, and of activations and their
// gradients. Master weights, weight gradients, the optimizer's state and the statistics of softmax and norms
// are float32 in every precision.
#pragma once

#include <concepts>

#include <trilith/core/half.hpp>

namespace trilith::inline v0 {

struct F32 {
  using element = float;
};
struct Bf16 {
  using element = BFloat16;
};
// Its gradients are computed from a scaled loss, see optim/loss_scale.hpp.
struct F16 {
  using element = Float16;
};

template <class Format>
struct Precision;

struct PrecisionCategory {
  using default_policy = Precision<F32>;
};

template <class Format>
struct Precision {
  static_assert(std::same_as<Format, F32> || std::same_as<Format, Bf16> || std::same_as<Format, F16>,
                "Precision<Format>: Format is F32, Bf16 or F16");
  using category = PrecisionCategory;
  using format = Format;
};

}  // namespace trilith::inline v0
