// Additions of biases, residuals and gradients, copies and fills: operations for EachPack.
#pragma once

#include <concepts>

#include <trilith/core/device_code.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/kernels/rows.hpp>
#include <trilith/kernels/strided.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// x += bias
template <element T>
struct AddBias {
  static constexpr const char* name = "add_bias";
  struct Params {
    simt::Global<const T> bias;
    StridedRows<T> x;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> bias = load_floats<N>(lane, p.bias, column);
    store_floats(lane, p.x, row, column, load_floats<N>(lane, p.x, row, column) + bias);
  }
};

// x = (x + bias) + residual
template <element T>
struct AddBiasResidual {
  static constexpr const char* name = "add_bias_residual";
  struct Params {
    simt::Global<const T> bias;
    StridedRows<const T> residual;
    StridedRows<T> x;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> biased = load_floats<N>(lane, p.x, row, column) + load_floats<N>(lane, p.bias, column);
    store_floats(lane, p.x, row, column, biased + load_floats<N>(lane, p.residual, row, column));
  }
};

// y += x
template <element T>
struct Add {
  static constexpr const char* name = "add";
  struct Params {
    StridedRows<const T> x;
    StridedRows<T> y;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    const Floats<N> x = load_floats<N>(lane, p.x, row, column);
    store_floats(lane, p.y, row, column, load_floats<N>(lane, p.y, row, column) + x);
  }
};

// y *= factor
template <element T>
struct Scale {
  static constexpr const char* name = "scale";
  struct Params {
    StridedRows<T> y;
    float factor;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    store_floats(lane, p.y, row, column, load_floats<N>(lane, p.y, row, column) * p.factor);
  }
};

// y = value
template <element T>
struct Fill {
  static constexpr const char* name = "fill";
  struct Params {
    StridedRows<T> y;
    float value;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    store_floats(lane, p.y, row, column, all_equal<N>(p.value));
  }
};

// Elements index_to on = those from index_from on, bit by bit where the types are the same.
template <int N, simt::lane Lane, element From, element To>
TRILITH_DEVICE void copy_elements(Lane& lane, simt::Global<const From> from, Index index_from,
                                  simt::Global<To> to, Index index_to) {
  if constexpr (std::same_as<From, To>) {
    lane.store(to, index_to, lane.load(from, index_from, simt::Width<N>{}));
  } else {
    store_floats(lane, to, index_to, load_floats<N>(lane, from, index_from));
  }
}

// to = from
template <element From, element To>
struct Copy {
  static constexpr const char* name = "copy";
  struct Params {
    StridedRows<const From> from;
    StridedRows<To> to;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, Index row, Index column, const Params& p) const {
    copy_elements<N>(lane, p.from.elements, p.from.at(row, column), p.to.elements, p.to.at(row, column));
  }
};

}  // namespace trilith::inline v0::kernels
