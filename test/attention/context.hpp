// Attention over context ranks as a test sees it: whole tensors in, whole tensors out, and what it took.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <trilith/attention/context_attention.hpp>
#include <trilith/comm/ledger.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/device/arena.hpp>
#include <trilith/device/device.hpp>
#include <trilith/device/host.hpp>
#include <trilith/ops/host.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith::test {

struct ContextRun {
  AttentionResults results;
  std::vector<Ledger> forward = {};             // of each rank: what forward has communicated
  std::vector<Ledger> both = {};                // and forward with backward
  std::vector<std::size_t> bytes = {};          // of each rank: what is saved, and scratch
  std::vector<std::size_t> range_bytes = {};    // of each rank: which keys its queries see
  std::vector<std::vector<Index>> scores = {};  // of each rank and hop
};

inline std::vector<int> ranks_up_to(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Rows of a whole (batch · sequence, columns) tensor that a rank holds, and back; padding is any finite
// number.
template <class Rows>
Tensor local_part(const Tensor& whole, Index batch, const Rows& rows, Index sequence) {
  Tensor part({batch * rows.size(), whole.columns(), 2});
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < rows.size(); ++i) {
      for (Index c = 0; c < whole.columns(); ++c) {
        if (rows.position(i) >= sequence) {
          part(b * rows.size() + i, c) = static_cast<float>(10 * (i + c + 1));
          continue;
        }
        part(b * rows.size() + i, c) = whole(b * sequence + rows.position(i), c);
      }
    }
  }
  return part;
}
template <class Rows>
void put_back(const Tensor& part, Tensor& whole, Index batch, const Rows& rows, Index sequence) {
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < rows.size(); ++i) {
      if (rows.position(i) >= sequence) continue;
      for (Index c = 0; c < whole.columns(); ++c) {
        whole(b * sequence + rows.position(i), c) = part(b * rows.size() + i, c);
      }
    }
  }
}

// Over all ranks of the world, each with a stream of its own.
template <class Policy, device D = Host, class World>
ContextRun attend_in(
    World& world, const AttentionInputs& x, Padding padding = Padding::no,
    const std::function<typename D::stream()>& make_stream = [] { return typename D::stream(Place{}); }) {
  using Communicator = typename World::communicator;
  const AttentionShape& s = x.shape;
  const int ranks = world.size();
  ContextRun run{.results = AttentionResults(s)};
  run.forward.resize(static_cast<std::size_t>(ranks));
  run.both.resize(static_cast<std::size_t>(ranks));
  run.bytes.resize(static_cast<std::size_t>(ranks));
  run.range_bytes.resize(static_cast<std::size_t>(ranks));
  run.scores.resize(static_cast<std::size_t>(ranks));
  std::vector<Tensor> d_sinks(static_cast<std::size_t>(ranks), Tensor(s.sinks ? s.heads : 0));
  world.run([&](typename World::rank_type& rank) {
    const auto r = static_cast<std::size_t>(rank.rank());
    const typename D::stream stream = make_stream();
    Host::Memory memory(true);
    Communicator group = rank.group("context", ranks_up_to(ranks));
    const ContextAttention<Policy, D, Communicator> attention({.sequence = s.queries,
                                                               .heads = s.heads,
                                                               .kv_heads = s.kv_heads,
                                                               .dimension = s.dimension,
                                                               .padding = padding},
                                                              s.mask.mask, group, memory, stream);
    const auto rows = attention.rows();
    const auto part = [&](const Tensor& whole) { return local_part(whole, s.batch, rows, s.queries); };
    Tensor q = part(x.q), k = part(x.k), v = part(x.v), d_out = part(x.d_out);
    Tensor out({q.rows(), q.columns(), 3}), dq({q.rows(), q.columns(), 1});
    Tensor dk({k.rows(), k.columns(), 3}), dv({v.rows(), v.columns()});
    Tensor lse({s.batch * s.heads, rows.size()});
    const auto heads = [&](auto& t) { return heads_of(t, s.batch, s.dimension); };
    const View<float, 3> lse_view(&lse(0, 0), {s.batch, s.heads, rows.size()});

    Host::Memory room_memory(true);
    const auto [allocation, room] = allocate_planned<D>(room_memory, [&](Arena& arena) {
      return std::pair(attention.saved(arena, s.batch), attention.scratch(arena, s.batch));
    });
    const Projections<float> projections{heads(q), heads(k), heads(v)};
    attention.forward(stream, x.settings(), projections, heads(out), lse_view, room.first, room.second);
    run.forward[r] = rank.ledger();
    attention.backward(stream, x.settings(), projections, heads(out), lse_view, heads(d_out),
                       {heads(dq), heads(dk), heads(dv)}, room.first, room.second, d_sinks[r].vector());
    stream.synchronize();

    run.both[r] = rank.ledger();
    run.bytes[r] = room_memory.peak_bytes();
    run.range_bytes[r] = memory.peak_bytes();
    for (int hop = 0; hop < attention.ranges().hops(); ++hop) {
      run.scores[r].push_back(attention.ranges().scores(hop));
    }
    AttentionResults& whole = run.results;
    put_back(out, whole.out, s.batch, rows, s.queries);
    put_back(dq, whole.dq, s.batch, rows, s.queries);
    put_back(dk, whole.dk, s.batch, rows, s.queries);
    put_back(dv, whole.dv, s.batch, rows, s.queries);
    for (Index i = 0; i < rows.size(); ++i) {
      if (rows.position(i) >= s.queries) continue;
      for (Index h = 0; h < lse.rows(); ++h) whole.lse(h, rows.position(i)) = lse(h, i);
    }
  });
  for (Index h = 0; h < run.results.d_sinks.columns(); ++h) {
    run.results.d_sinks[h] = 0;
    for (const Tensor& part : d_sinks) run.results.d_sinks[h] += part[h];
  }
  return run;
}

template <class Policy>
ContextRun attend_over(int ranks, const AttentionInputs& x, Padding padding = Padding::no) {
  ThreadWorld world(ranks);
  return attend_in<Policy>(world, x, padding);
}

// The greatest relative error of any result, as norms. Gradients of q and k may vanish: see their floor.
inline double worst_error(const AttentionResults& actual, const ExpectedAttention& expected) {
  const double floor = norm(expected.dv, actual.dv) / 10;
  return std::max({norm_error(actual.out, expected.out), norm_error(actual.lse, expected.lse),
                   norm_error(actual.dv, expected.dv), norm_error(actual.dq, expected.dq, floor),
                   norm_error(actual.dk, expected.dk, floor),
                   norm_error(actual.d_sinks, expected.d_sinks, floor)});
}

}  // namespace trilith::test
