// Attention's forward kernel on the emulator, with inputs as test/support/attention_reference.hpp has them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <trilith/core/half.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/emulated.hpp>
#include <trilith/ops/attention.hpp>
#include <trilith/ops/cuda/attention.hpp>
#include <trilith/ops/host/attention.hpp>
#include <trilith/simt/emulator.hpp>

#include "test/kernels/attention_case.hpp"
#include "test/simt/buffer.hpp"
#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith::test {

struct ForwardOptions {
  simt::Emulation emulation = {};
  int hops = 1;            // which take equal parts of the keys in turn
  int hops_on_host = 0;    // the first of them, in float32
  int blind = 0;           // n > 0: every n-th query sees nothing
  int keys_of_nobody = 0;  // further keys and values that no query sees, NaN
  bool intervals = false;  // are all that the operation is told, also where they make a rectangle
  bool sectors = false;    // rows begin at multiples of 32 bytes, not of 16
};

struct ForwardResults {
  Tensor out, lse;
  simt::Counters counters;
};

inline bool is_blind(const ForwardOptions& options, Index query) {
  return options.blind > 0 && query % options.blind == 1;
}

template <half T>
class ForwardCase {
 public:
  explicit ForwardCase(const AttentionInputs& x, const ForwardOptions& options = {})
      : x_(x),
        options_(options),
        q_(s().batch, s().queries, s().heads, s().dimension, padding(8), nan),
        k_(s().batch, s().keys + options.keys_of_nobody, s().kv_heads, s().dimension, padding(40), nan),
        v_(s().batch, s().keys + options.keys_of_nobody, s().kv_heads, s().dimension, padding(0), nan),
        out_(s().batch, s().queries, s().heads, s().dimension, padding(24), nan),
        carry_out_(s().batch, s().queries, s().heads, s().dimension, 8, float_nan),
        lse_(per_query_size(), float_nan),
        maximum_(per_query_size(), float_nan),
        sum_(per_query_size(), float_nan) {
    q_.take(x.q);
    for (Index b = 0; b < s().batch; ++b) {
      for (Index j = 0; j < s().keys; ++j) {
        for (Index c = 0; c < x.k.columns(); ++c) {
          (&k_.view()(b, j, 0, 0))[c] = T(x.k(b * s().keys + j, c));
          (&v_.view()(b, j, 0, 0))[c] = T(x.v(b * s().keys + j, c));
        }
      }
    }
  }

  ForwardResults run() {
    const Emulated::Stream stream(options_.emulation);
    for (int hop = 0; hop < options_.hops; ++hop) run_hop(stream, hop);
    ForwardResults y{Tensor(Extent{x_.q.rows(), x_.q.columns()}),
                     Tensor(Extent{s().batch * s().heads, s().queries}), stream.counters()};
    out_.give(y.out);
    std::copy_n(lse_.data(), lse_.size(), &y.lse[0]);
    return y;
  }

 private:
  static constexpr float float_nan = std::numeric_limits<float>::quiet_NaN();
  static inline const T nan = T(float_nan);

  const AttentionShape& s() const { return x_.shape; }
  Index padding(Index least) const { return options_.sectors ? round_up(least, 16) : least; }
  Index per_query_size() const { return s().batch * s().heads * s().queries; }
  View<float, 3> per_query(Buffer<float>& x) { return {x.data(), {s().batch, s().heads, s().queries}}; }

  void run_hop(const Emulated::Stream& stream, int hop) {
    const Index first_key = s().keys * hop / options_.hops;
    const Index keys = s().keys * (hop + 1) / options_.hops - first_key;
    const BoundMask bound = s().mask.mask.of(s().queries, s().keys);
    Buffer<std::int32_t> first(s().queries), last(s().queries);
    for (Index i = 0; i < s().queries; ++i) {
      const KeyInterval seen = bound.keys_of(i);
      first[i] = static_cast<std::int32_t>(std::clamp<Index>(seen.first - first_key, 0, keys));
      last[i] = static_cast<std::int32_t>(std::clamp<Index>(seen.last - first_key, 0, keys));
      // Any empty interval will do.
      if (is_blind(options_, i)) {
        first[i] = static_cast<std::int32_t>(i % 2 == 0 ? keys : 0);
        last[i] = 0;
      }
    }
    ops::KeyRanges ranges = key_ranges_of({first.data(), {s().queries}}, {last.data(), {s().queries}});
    if (options_.intervals) ranges.rectangle = {};
    const bool is_last = hop == options_.hops - 1;
    const ops::Hop of{.first = hop == 0, .last = is_last};
    const ops::AttentionCarry carry{carry_out_.view(), per_query(maximum_), per_query(sum_)};
    Buffer<float> sinks(s().heads);
    for (Index h = 0; h < s().heads; ++h) sinks[h] = x_.sinks[h];
    ops::AttentionSettings settings = x_.settings();
    if (s().sinks) settings.sinks = Vector<const float>(sinks.data(), {s().heads});
    if (hop < options_.hops_on_host) {
      const auto part = [&](const Tensor& x) {
        return heads_of(x, s().batch, s().dimension).slice(1, first_key, keys);
      };
      ops::attention(Host::Stream(), heads_of(x_.q, s().batch, s().dimension), part(x_.k), part(x_.v),
                     settings, ranges, of, carry, View<float, 4>(), per_query(lse_));
      return;
    }
    const Index more = is_last ? options_.keys_of_nobody : 0;
    const auto k = k_.keys(first_key, keys + more);
    const auto v = v_.keys(first_key, keys + more);
    if (options_.hops == 1) {
      ops::attention(stream, q_.view(), k, v, settings, ranges, out_.view(), per_query(lse_));
    } else {
      ops::attention(stream, q_.view(), k, v, settings, ranges, of, carry,
                     is_last ? out_.view() : View<T, 4>(), per_query(lse_));
    }
  }

  const AttentionInputs& x_;
  ForwardOptions options_;
  HeadBuffer<T> q_, k_, v_, out_;
  HeadBuffer<float> carry_out_;
  Buffer<float> lse_, maximum_, sum_;
};

template <half T>
ForwardResults forward_of(const AttentionInputs& x, const ForwardOptions& options = {}) {
  return ForwardCase<T>(x, options).run();
}

}  // namespace trilith::test
