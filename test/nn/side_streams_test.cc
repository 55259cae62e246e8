// Models on a device that does its work late: attention's hops run on a stream of their own, weight gradients
// beside them, and whatever is done first, the gradients' bits are those of the host, which does all in
// order.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/comm/thread_world.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/llama.hpp>
#include <trilith/ops/host.hpp>
#include <trilith/pipeline/stage.hpp>

#include "test/support/deferred.hpp"
#include "test/support/deferred_world.hpp"

namespace trilith::test {
namespace {

using Order = Deferred::Machine::Order;

constexpr TokenShape tokens{.batch = 2, .sequence = 12};
constexpr int microbatches = 2;
constexpr int vocabulary = 23;

template <class D>
using World = std::conditional_t<std::same_as<D, Host>, ThreadWorld, DeferredWorld>;

template <class D>
using LayersOf = Layers<1, D, typename World<D>::communicator>;

struct TinyGpt {
  template <class D>
  using Model = Gpt<LayersOf<D>>;
  static constexpr GptShape shape{
      .layers = 2, .hidden = 16, .heads = 2, .positions = 12, .vocabulary = vocabulary};
};

struct TinyLlama {
  template <class D>
  using Model = Llama<LayersOf<D>>;
  static constexpr LlamaShape shape{.layers = 2,
                                    .hidden = 16,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dimension = 8,
                                    .feed_forward = 24,
                                    .positions = 12,
                                    .vocabulary = vocabulary};
};

enum class Backward { whole, in_parts };

// The gradients that two microbatches leave.
template <class Tiny, class D>
std::vector<float> gradients_on(const typename D::stream& s, Backward backward) {
  using Model = typename Tiny::template Model<D>;
  typename D::memory memory(Place{.poison = true});
  Parameters<D> parameters(0);
  World<D> world(1);
  typename World<D>::communicator alone = world.rank(0).group("alone", {0});
  Model model(Tiny::shape, StageRange{.layers = Tiny::shape.layers},
              {parameters, alone, alone, memory, s, tokens.sequence});
  parameters.allocate(memory);
  model.allocate(memory);
  parameters.initialize(s, 1);

  const bool apart = backward == Backward::in_parts;
  Stage<Model> stage(model, true, tokens, {.gradients = 1, .output_gradients = 1, .apart = apart}, memory);
  std::vector<std::int32_t> text;
  for (Index i = 0; i <= microbatches * tokens.rows(); ++i) {
    text.push_back(static_cast<std::int32_t>(i * i % vocabulary));
  }
  std::vector<Microbatch> parts;
  for (Index i = 0; i < microbatches; ++i) {
    const std::int32_t* const first = &text[static_cast<std::size_t>(i * tokens.rows())];
    parts.push_back({tokens, {first, {tokens.rows()}}, {first + 1, {tokens.rows()}}});
  }
  std::array<double, microbatches> losses = {};
  stage.begin(parts, {losses.data(), {microbatches}}, 1.0f / (microbatches * tokens.rows()), {});
  for (int i = 0; i < microbatches; ++i) {
    stage.forward(s, i, {});
    if (apart) {
      stage.backward_input(s, i, {});
      stage.backward_weight(s, i, {});
    } else {
      stage.backward(s, i, {});
    }
  }
  model.combine_tied(s);
  s.synchronize();
  const Vector<float> gradients = parameters.gradients();
  return {gradients.data(), gradients.data() + gradients.size()};
}

template <class Tiny>
class SideStreams : public testing::Test {};
using Models = testing::Types<TinyGpt, TinyLlama>;
TYPED_TEST_SUITE(SideStreams, Models);

TYPED_TEST(SideStreams, LeaveTheGradientsBitsInAnyOrderThatTheyAllow) {
  const std::vector<float> expected = gradients_on<TypeParam, Host>(Host::Stream(), Backward::whole);
  for (const Backward backward : {Backward::whole, Backward::in_parts}) {
    SCOPED_TRACE(backward == Backward::whole ? "whole" : "in parts");
    EXPECT_TRUE((gradients_on<TypeParam, Host>(Host::Stream(), backward) == expected));
    for (const Order order : {Order::oldest_first, Order::youngest_first}) {
      EXPECT_TRUE((gradients_on<TypeParam, Deferred>(Deferred::Stream(order), backward) == expected));
    }
    for (unsigned seed = 1; seed <= 8; ++seed) {
      const Deferred::Stream s(Order::shuffled, seed);
      EXPECT_TRUE((gradients_on<TypeParam, Deferred>(s, backward) == expected)) << "seed " << seed;
    }
  }
}

// How many matrix products are done before each block's backward pass of attention.
template <class Tiny>
std::vector<int> products_before_attention(Order order, Backward backward) {
  const Deferred::Stream s(order);
  gradients_on<Tiny, Deferred>(s, backward);
  std::vector<int> counts;
  int products = 0;
  for (const std::string& name : s.machine().log) {
    if (name == "gemm") ++products;
    if (name == "attention_backward") counts.push_back(products);
  }
  return counts;
}

// Those of the Mlp's two linears and of the projection.
TYPED_TEST(SideStreams, LetThreeWeightGradientsRunBesideAttention) {
  const auto whole = [](Order order) { return products_before_attention<TypeParam>(order, Backward::whole); };
  std::vector<int> counts = whole(Order::youngest_first);
  ASSERT_EQ(counts.size(), 4u);  // two blocks of two microbatches
  for (int& count : counts) count += 3;
  EXPECT_EQ(whole(Order::oldest_first), counts);
}

TYPED_TEST(SideStreams, LeaveNothingBesideABackwardPassInParts) {
  EXPECT_EQ(products_before_attention<TypeParam>(Order::oldest_first, Backward::in_parts),
            products_before_attention<TypeParam>(Order::youngest_first, Backward::in_parts));
}

}  // namespace
}  // namespace trilith::test
