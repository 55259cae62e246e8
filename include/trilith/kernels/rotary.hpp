// Rotary position embedding, as ops/host/rotary.hpp defines it: an operation for EachHead, and one for
// EachPack that makes the table.
#pragma once

#include <cmath>
#include <cstdint>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/each_head.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// (a, b) = (a · cos − b · sin, b · cos + a · sin), or by the negative angle if Back, where a and b are
// columns `column` and `half` + `column` of a head.
template <element T, bool Back>
struct Rotary {
  static constexpr const char* name = Back ? "rotary_backward" : "rotary";
  struct Params {
    StridedRows<const float> table;  // (sequence, dimension): cosines, then sines
    HeadTensor<T> x;
    Index half;  // of the dimension
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, const HeadPlace& place, const Params& p) const {
    const Floats<N> cosine = load_floats<N>(lane, p.table, place.row, place.column);
    Floats<N> sine = load_floats<N>(lane, p.table, place.row, p.half + place.column);
    if constexpr (Back) sine = sine * -1.0f;
    const Index at = p.x.at(place);
    const Floats<N> a = load_floats<N>(lane, p.x.elements, at);
    const Floats<N> b = load_floats<N>(lane, p.x.elements, at + p.half);
    store_floats(lane, p.x.elements, at, a * cosine - b * sine);
    store_floats(lane, p.x.elements, at + p.half, b * cosine + a * sine);
  }
};

struct SineCosine {
  double sine;
  double cosine;
};

// For 0 ≤ x ≤ 2^20, to 1e-11. x minus a multiple of π/2, in two parts of which the first has 33 bits, as
// fdlibm's
// __ieee754_rem_pio2; then Taylor's series within ±π/4. The library's own functions take local memory.
TRILITH_DEVICE SineCosine sine_cosine(double x) {
  constexpr double half_pi = 1.57079632673412561417e+00;
  constexpr double half_pi_rest = 6.07710050650619224932e-11;
  const double quarters = std::rint(x * 0.63661977236758134308);
  const double r = (x - quarters * half_pi) - quarters * half_pi_rest;
  const double s = r * r;
  const double sine =
      r +
      r * s * (-1.0 / 6 + s * (1.0 / 120 + s * (-1.0 / 5040 + s * (1.0 / 362880 - s * (1.0 / 39916800)))));
  const double cosine =
      1 + s * (-0.5 + s * (1.0 / 24 + s * (-1.0 / 720 + s * (1.0 / 40320 +
                                                             s * (-1.0 / 3628800 + s * (1.0 / 479001600))))));
  const auto quarter = static_cast<std::int64_t>(quarters);
  const double of_sine = quarter % 2 == 0 ? sine : cosine;
  const double of_cosine = quarter % 2 == 0 ? cosine : sine;
  return {quarter & 2 ? -of_sine : of_sine, (quarter + 1) & 2 ? -of_cosine : of_cosine};
}

// Columns i and half + i of each row: cosine and sine of position · theta^(−i / half), in float64.
struct RotaryTable {
  static constexpr const char* name = "rotary_table";
  struct Params {
    simt::Global<const std::int32_t> positions;
    double theta;
    Index half;
    StridedRows<float> table;
  };

  template <simt::lane Lane>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<1>, Index row, Index column, const Params& p) const {
    const std::int32_t position = lane.load(p.positions, row);
    const double frequency = std::pow(p.theta, -static_cast<double>(column) / static_cast<double>(p.half));
    const SineCosine angle = sine_cosine(frequency * (position > 0 ? position : 0));
    lane.store(p.table.elements, p.table.at(row, column), static_cast<float>(angle.cosine));
    lane.store(p.table.elements, p.table.at(row, p.half + column), static_cast<float>(angle.sine));
  }
};

}  // namespace trilith::inline v0::kernels
