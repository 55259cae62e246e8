// Attention over context ranks in 16 bits, on the emulated device: exact to rounding for every kind, and no
// worse for many hops than for one, since what goes from hop to hop is float32.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/attention/context_attention.hpp>
#include <trilith/comm/thread_world.hpp>
#include <trilith/core/error.hpp>
#include <trilith/emulated.hpp>
#include <trilith/mask/mask.hpp>

#include "test/support/attention_reference.hpp"
#include "test/support/tensors.hpp"

namespace trilith {
namespace {

using test::Tensor;
using Shape = test::AttentionShape;
using Inputs = test::AttentionInputs;
using Results = test::AttentionResults;

// Rounded to T, so that what is computed on is what the reference has.
template <class T>
Inputs rounded_inputs(const Shape& shape) {
  Inputs inputs(shape);
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_out}) {
    for (Index i = 0; i < tensor->rows(); ++i) {
      for (Index j = 0; j < tensor->columns(); ++j) {
        (*tensor)(i, j) = static_cast<float>(T((*tensor)(i, j)));
      }
    }
  }
  return inputs;
}

template <class Policy, class T>
Results attend(int ranks, const Inputs& x) {
  const Shape& s = x.shape;
  Results whole(s);
  ThreadWorld world(ranks);
  world.run([&](ThreadRank& rank) {
    const Emulated::Stream stream(Place{.rank = rank.rank()});
    Emulated::memory memory(Place{.poison = true});
    std::vector<int> all;
    for (int r = 0; r < ranks; ++r) all.push_back(r);
    ThreadCommunicator group = rank.group("context", all);
    const ContextAttention<Policy, Emulated, ThreadCommunicator, T> attention(
        {.sequence = s.queries, .heads = s.heads, .kv_heads = s.kv_heads, .dimension = s.dimension},
        s.mask.mask, group, memory, stream);
    const auto rows = attention.rows();
    struct Room {
      View<T, 4> q, k, v, out, d_out, dq, dk, dv;
      View<float, 3> lse;
      typename ContextAttention<Policy, Emulated, ThreadCommunicator, T>::Saved saved;
      typename ContextAttention<Policy, Emulated, ThreadCommunicator, T>::Scratch scratch;
    };
    const auto [allocation, room] = allocate_planned<Emulated>(memory, [&](Arena& arena) {
      const auto take = [&](Index heads) { return arena.take<T>(s.batch, rows.size(), heads, s.dimension); };
      return Room{.q = take(s.heads),
                  .k = take(s.kv_heads),
                  .v = take(s.kv_heads),
                  .out = take(s.heads),
                  .d_out = take(s.heads),
                  .dq = take(s.heads),
                  .dk = take(s.kv_heads),
                  .dv = take(s.kv_heads),
                  .lse = arena.take<float>(s.batch, s.heads, rows.size()),
                  .saved = attention.saved(arena, s.batch),
                  .scratch = attention.scratch(arena, s.batch)};
    });
    // f(element of this rank's part, element of the whole tensor)
    const auto for_each = [&](View<T, 4> part, auto& tensor, const auto& f) {
      for (Index b = 0; b < s.batch; ++b) {
        for (Index i = 0; i < rows.size(); ++i) {
          for (Index c = 0; c < part.extent(2) * s.dimension; ++c) {
            f(part(b, i, c / s.dimension, c % s.dimension), tensor(b * s.queries + rows.position(i), c));
          }
        }
      }
    };
    const auto round = [](T& mine, float value) { mine = T(value); };
    const auto widen = [](const T& mine, float& value) { value = static_cast<float>(mine); };
    for_each(room.q, x.q, round);
    for_each(room.k, x.k, round);
    for_each(room.v, x.v, round);
    for_each(room.d_out, x.d_out, round);
    const Projections<T> projections{room.q, room.k, room.v};
    attention.forward(stream, x.settings(), projections, room.out, room.lse, room.saved, room.scratch);
    attention.backward(stream, x.settings(), projections, room.out, room.lse, room.d_out,
                       {room.dq, room.dk, room.dv}, room.saved, room.scratch);
    for_each(room.out, whole.out, widen);
    for_each(room.dq, whole.dq, widen);
    for_each(room.dk, whole.dk, widen);
    for_each(room.dv, whole.dv, widen);
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index i = 0; i < rows.size(); ++i) {
          whole.lse(b * s.heads + h, rows.position(i)) = room.lse(b, h, i);
        }
      }
    }
  });
  return whole;
}

struct Errors {
  double out, lse, dq, dk, dv;

  explicit Errors(const Results& y, const test::ExpectedAttention& expected)
      : out(test::norm_error(y.out, expected.out)),
        lse(test::norm_error(y.lse, expected.lse)),
        dq(test::norm_error(y.dq, expected.dq)),
        dk(test::norm_error(y.dk, expected.dk)),
        dv(test::norm_error(y.dv, expected.dv)) {}

  double worst() const { return std::max({out, lse, dq, dk, dv}); }
};

const Shape shape{1, 64, 64, 4, 2, 16, test::causal};

// Inputs, weights and results are rounded to 8 bits, each by up to 2^-9: errors of 2.7e-3 were measured.
constexpr double rounding = 4e-3;

template <class Policy>
void expect_exact(int ranks) {
  const Inputs inputs = rounded_inputs<BFloat16>(shape);
  const Errors errors(attend<Policy, BFloat16>(ranks, inputs), test::ExpectedAttention(inputs));
  EXPECT_LE(errors.worst(), rounding);
}

TEST(HalfContextAttention, IsExactForEveryKind) {
  expect_exact<Attention<Local>>(1);
  expect_exact<Attention<AllGatherKv, Zigzag>>(2);
  expect_exact<Attention<Ulysses>>(2);
  expect_exact<Attention<Hybrid<2>, Striped>>(4);
}

TEST(HalfContextAttention, ErrorsDoNotGrowWithTheHopsOfARing) {
  const Inputs inputs = rounded_inputs<BFloat16>(shape);
  const test::ExpectedAttention expected(inputs);
  const Errors one(attend<Attention<Ring, Zigzag>, BFloat16>(1, inputs), expected);
  for (const int ranks : {2, 8}) {
    SCOPED_TRACE(ranks);
    const Errors split(attend<Attention<Ring, Zigzag>, BFloat16>(ranks, inputs), expected);
    EXPECT_LE(split.out, 1.2 * one.out);
    EXPECT_LE(split.lse, 1.2 * one.lse + 1e-7);
    EXPECT_LE(split.dq, 1.2 * one.dq);
    EXPECT_LE(split.dk, 1.2 * one.dk);
    EXPECT_LE(split.dv, 1.2 * one.dv);
  }
}

// When it is made, before any of its memory is.
template <class T>
std::string said_of_heads_of(Index dimension) {
  std::string said;
  ThreadWorld world(1);
  world.run([&](ThreadRank& rank) {
    const Emulated::Stream stream;
    Emulated::memory memory;
    ThreadCommunicator group = rank.group("context", {0});
    try {
      const ContextAttention<Attention<Local>, Emulated, ThreadCommunicator, T> attention(
          {.sequence = 8, .heads = 2, .kv_heads = 1, .dimension = dimension}, mask::causal(), group, memory,
          stream);
    } catch (const Error& error) {
      said = error.what();
    }
  });
  return said;
}

TEST(HalfContextAttention, RefusesHeadsThatKernelsDoNotTake) {
  const auto refusal = [](Index dimension) {
    return "attention of 2 heads with 1 key/value heads of dimension " + std::to_string(dimension) +
           " on a device that runs kernels; the dimension must be 256 at most, and in 16 bits a multiple of "
           "8";
  };
  for (const Index dimension : {4, 12, 100, 264}) {
    EXPECT_EQ(said_of_heads_of<BFloat16>(dimension), refusal(dimension));
    EXPECT_EQ(said_of_heads_of<Float16>(dimension), refusal(dimension));
  }
  EXPECT_EQ(said_of_heads_of<float>(257), refusal(257));
  for (const Index dimension : {8, 64, 256}) EXPECT_EQ(said_of_heads_of<BFloat16>(dimension), "");
  EXPECT_EQ(said_of_heads_of<float>(100), "");
}

}  // namespace
}  // namespace trilith
