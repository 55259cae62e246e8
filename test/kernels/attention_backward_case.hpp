// Attention's backward kernels on the emulator, with inputs and results as
// test/support/attention_reference.hpp has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <trilith/core/half.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/device.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/mask/mask.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention_backward.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/kernels/attention_case.hpp"
#include "test/simt/buffer.hpp"
#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith::test {

struct Launch {
  std::string kernel;
  simt::Counters counters;
};

class EmulatorStream : public ops::Stream {
 public:
  explicit EmulatorStream(simt::Emulation options = {}) : emulator_(options) {}

  template <simt::kernel K>
  void launch(const K& kernel, simt::Dim3 grid, const typename K::Params& params) const {
    launches_.push_back({K::name, emulator_.launch(kernel, grid, params)});
  }

  void* scratch(std::size_t /*bytes*/) const { return nullptr; }  // of which attention uses none

  simt::Counters of(const std::string& kernel) const {
    const auto is = [&](const Launch& launch) { return launch.kernel == kernel; };
    return std::find_if(launches_.begin(), launches_.end(), is)->counters;
  }

 private:
  mutable simt::Emulator emulator_;
  mutable std::vector<Launch> launches_;
};

static_assert(kernel_stream<EmulatorStream>);

struct BackwardOptions {
  simt::Emulation emulation = {};
  int hops = 1;
  Accumulate accumulate = Accumulate::no;  // into dk, dv and d_sinks, which hold 1
  Index padding = 8;                       // between rows
  Index keys_of_nobody = 0;                // NaN, after the keys; for a batch of 1
  bool intervals = false;  // are all that the operation is told, also where they make a rectangle
  ops::DqOrder dq_order = ops::DqOrder::ascending;
};

struct BackwardResults {
  Tensor dq, dk, dv, d_sinks;
  EmulatorStream stream;

  std::vector<Tensor> all() const { return {dq, dk, dv, d_sinks}; }
};

// The backward pass of attention, whose output and lse are the expected ones. The hops take equal parts of
// the keys in turn.
template <half T, class G>
BackwardResults backward_of(const AttentionInputs& x, const ExpectedAttention& expected,
                            const BackwardOptions& options = {}) {
  const AttentionShape& s = x.shape;
  const T nan(std::numeric_limits<float>::quiet_NaN());
  HeadBuffer<T> q(s.batch, s.queries, s.heads, s.dimension, options.padding, nan);
  const Index all_keys = s.keys + options.keys_of_nobody;
  HeadBuffer<T> k(s.batch, all_keys, s.kv_heads, s.dimension, 2 * options.padding, nan);
  HeadBuffer<T> v(s.batch, all_keys, s.kv_heads, s.dimension, 0, nan);
  HeadBuffer<T> d_out(s.batch, s.queries, s.heads, s.dimension, 3 * options.padding, nan);
  HeadBuffer<T> out(s.batch, s.queries, s.heads, s.dimension, options.padding, nan);
  HeadBuffer<T> dq(s.batch, s.queries, s.heads, s.dimension, options.padding, nan);
  HeadBuffer<float> carry(s.batch, s.queries, s.heads, s.dimension,
                          options.dq_order == ops::DqOrder::any ? 0 : options.padding / 2,
                          std::numeric_limits<float>::quiet_NaN());
  const G before(options.accumulate == Accumulate::yes ? 1.0f : std::numeric_limits<float>::quiet_NaN());
  HeadBuffer<G> dk(s.batch, all_keys, s.kv_heads, s.dimension, options.padding, before);
  HeadBuffer<G> dv(s.batch, all_keys, s.kv_heads, s.dimension, 2 * options.padding, before);
  Buffer<float> lse(s.batch * s.heads * s.queries), delta(s.batch * s.heads * s.queries);
  Buffer<std::int32_t> room(std::max<Index>(ops::attention_backward_room(s.queries), 1));

  q.take(x.q);
  k.take(x.k);
  v.take(x.v);
  d_out.take(x.d_out);
  Tensor expected_out(Extent{x.q.rows(), x.q.columns()});
  for (Index row = 0; row < x.q.rows(); ++row) {
    for (Index column = 0; column < x.q.columns(); ++column) {
      expected_out(row, column) = static_cast<float>(expected.out(row, column));
    }
  }
  out.take(expected_out);
  for (Index i = 0; i < lse.size(); ++i) {
    lse[i] = static_cast<float>(expected.lse(i / s.queries, i % s.queries));
  }

  BackwardResults y{Tensor(Extent{x.q.rows(), x.q.columns()}),
                    Tensor(Extent{s.batch * all_keys, x.k.columns()}),
                    Tensor(Extent{s.batch * all_keys, x.k.columns()}), Tensor(s.sinks ? s.heads : 0),
                    EmulatorStream(options.emulation)};
  const View<float, 3> lse_view{lse.data(), {s.batch, s.heads, s.queries}};
  const View<float, 3> delta_view{delta.data(), {s.batch, s.heads, s.queries}};
  ops::attention_delta(y.stream, out.view(), d_out.view(), delta_view);
  const OwnKeyRanges ranges(s);
  for (int hop = 0; hop < options.hops; ++hop) {
    const Index first_key = all_keys * hop / options.hops;
    const Index keys = all_keys * (hop + 1) / options.hops - first_key;
    Buffer<std::int32_t> first(s.queries), last(s.queries);
    for (Index i = 0; i < s.queries; ++i) {
      first[i] = static_cast<std::int32_t>(std::clamp<Index>(ranges.view().first(i) - first_key, 0, keys));
      last[i] = static_cast<std::int32_t>(std::clamp<Index>(ranges.view().last(i) - first_key, 0, keys));
    }
    ops::KeyRanges of_hop = key_ranges_of({first.data(), {s.queries}}, {last.data(), {s.queries}});
    if (options.intervals) of_hop.rectangle = {};
    const auto run = [&]<ops::DqOrder order>() {
      ops::attention_backward<order>(y.stream, q.view(), k.keys(first_key, keys), v.keys(first_key, keys),
                                     lse_view, delta_view, d_out.view(), x.settings(), of_hop,
                                     {.first = hop == 0, .last = hop == options.hops - 1}, carry.view(),
                                     dq.view(), dk.keys(first_key, keys), dv.keys(first_key, keys),
                                     Vector<std::int32_t>(room.data(), {room.size()}), options.accumulate);
    };
    if (options.dq_order == ops::DqOrder::any) {
      run.template operator()<ops::DqOrder::any>();
    } else {
      run.template operator()<ops::DqOrder::ascending>();
    }
  }
  dq.give(y.dq);
  dk.give(y.dk);
  dv.give(y.dv);
  if (s.sinks) {
    Buffer<float> sinks(s.heads), d_sinks(s.heads, 1);
    for (Index h = 0; h < s.heads; ++h) sinks[h] = x.sinks[h];
    ops::attention_sinks_backward(y.stream, lse_view, delta_view,
                                  {.sinks = Vector<const float>(sinks.data(), {s.heads})}, options.accumulate,
                                  Vector<float>(d_sinks.data(), {s.heads}));
    for (Index h = 0; h < s.heads; ++h) y.d_sinks[h] = d_sinks[h];
  }
  return y;
}

}  // namespace trilith::test
