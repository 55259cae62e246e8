// Ring attention on its own: a sequence over four ranks, forward and backward, beside the same on one.
//
//     ./bazelw run //examples:ring_attention
#include <cmath>
#include <cstdio>
#include <vector>

#include <trilith/trilith.hpp>

using namespace trilith;
constexpr Index batch = 1, sequence = 2048, heads = 4, kv_heads = 2, dimension = 64;

// Gradients of the queries, by position: (sequence, heads · dimension).
std::vector<float> attend(int ranks) {
  std::vector<float> whole(sequence * heads * dimension);
  ThreadWorld world(ranks);
  world.run([&](ThreadRank& rank) {
    const Host::Stream stream;
    Host::Memory memory;
    auto group = rank.group("context", ParallelShape{.context = ranks}.group(Axis::context, rank.rank()));
    const ContextAttention<Attention<Ring, Zigzag>, Host, ThreadCommunicator> attention(
        {.sequence = sequence, .heads = heads, .kv_heads = kv_heads, .dimension = dimension}, mask::causal(),
        group, memory, stream);
    const auto rows = attention.rows();  // of this rank: a part from the front and one from the back

    const auto [allocation, views] = allocate_planned<Host>(memory, [&](Arena& arena) {
      const auto take = [&](Index h) { return arena.take<float>(batch, rows.size(), h, dimension); };
      return std::tuple(Projections<float>{take(heads), take(kv_heads), take(kv_heads)},
                        Projections<float>{take(heads), take(kv_heads), take(kv_heads)}, take(heads),
                        arena.take<float>(batch, heads, rows.size()), attention.saved(arena, batch),
                        attention.scratch(arena, batch));
    });
    const auto& [x, dx, out, lse, saved, scratch] = views;
    const auto position = [&](Index i, Index width) { return rows.position(i / width) * width + i % width; };
    for (int stream_number = 0; const View<float, 4>& t : {x.q, x.k, x.v}) {
      const Philox random(/*seed=*/1, stream_number++);  // the same numbers on any number of ranks
      for (Index i = 0; i < t.size(); ++i) t.data()[i] = random.normal(position(i, t.extent(2) * dimension));
    }

    const ops::AttentionSettings settings{.scale = 1 / std::sqrt(float{dimension})};
    attention.forward(stream, settings, x, out, lse, saved, scratch);
    attention.backward(stream, settings, x, out, lse, /*d_out=*/x.q, dx, saved, scratch);
    for (Index i = 0; i < dx.q.size(); ++i) whole[position(i, heads * dimension)] = dx.q.data()[i];
    if (rank.rank() != 0) return;
    const auto sent = rank.ledger().total("context", Collective::send);
    std::printf("%d ranks: %ld hops, %.1f MB sent, %.1f MB of memory at most\n", ranks, long{sent.calls},
                double(sent.bytes) * 1e-6, double(memory.peak_bytes()) * 1e-6);
  });
  return whole;
}

int main() {
  const std::vector<float> one = attend(1), four = attend(4);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    error += std::pow(double{four[i]} - double{one[i]}, 2), norm += std::pow(double{one[i]}, 2);
  }
  std::printf("gradients of the queries differ by %.1e of their norm\n", std::sqrt(error / norm));
}
