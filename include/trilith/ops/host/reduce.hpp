// Reductions of a whole vector to one number, which stays on the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host/parallel.hpp>

namespace trilith::inline v0::ops {

namespace detail {

inline double sum_of_squares(const float* x, Index count) {
  using Floats __attribute__((vector_size(32))) = float;
  using Doubles __attribute__((vector_size(64))) = double;
  constexpr Index lanes = 8;
  constexpr Index chains = 4;  // hide the latency of an addition

  Doubles sums[chains] = {};
  const auto add = [&](Index chain, const float* from, Index width) {
    Floats part{};
    std::memcpy(&part, from, static_cast<std::size_t>(width) * sizeof(float));
    const Doubles wide = __builtin_convertvector(part, Doubles);
    sums[chain] += wide * wide;
  };
  Index i = 0;
  for (; i + chains * lanes <= count; i += chains * lanes) {
    for (Index chain = 0; chain < chains; ++chain) add(chain, x + i + chain * lanes, lanes);
  }
  for (Index chain = 0; i < count; i += lanes) add(chain++, x + i, std::min(lanes, count - i));
  const Doubles sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

}  // namespace detail

// sum(0) = Σ x² in float64, by chunks of a fixed length that are added in ascending order: the same bits for
// any number of threads. No square of a float overflows a double, so the sum is finite exactly where all of x
// is.
inline void sum_of_squares(const Host::Stream& stream, Vector<const float> x, Vector<double> sum) {
  constexpr Index chunk = 16384;
  const Index chunks = ceil_divide(x.size(), chunk);
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  stream.parallel_for(chunks, parallel::grain(chunk), [&](Index first, Index last) {
    for (Index part = first; part < last; ++part) {
      sums[static_cast<std::size_t>(part)] =
          detail::sum_of_squares(&x(part * chunk), std::min(chunk, x.size() - part * chunk));
    }
  });
  sum(0) = 0;
  for (const double part : sums) sum(0) += part;
}

}  // namespace trilith::inline v0::ops
