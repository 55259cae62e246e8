// A copy of a (batch, rows, heads, dimension) tensor: an operation for EachHead.
#pragma once

#include <trilith/core/device_code.hpp>
#include <trilith/kernels/each_head.hpp>
#include <trilith/kernels/elementwise.hpp>
#include <trilith/kernels/floats.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

namespace trilith::inline v0::kernels {

// to = from
template <element From, element To>
struct CopyHeads {
  static constexpr const char* name = "copy_heads";
  struct Params {
    HeadTensor<const From> from;
    HeadTensor<To> to;
  };

  template <simt::lane Lane, int N>
  TRILITH_DEVICE void operator()(Lane& lane, simt::Width<N>, const HeadPlace& place, const Params& p) const {
    copy_elements<N>(lane, p.from.elements, p.from.at(place), p.to.elements, p.to.at(place));
  }
};

}  // namespace trilith::inline v0::kernels
