// The 16-bit weights that layers compute with: where they lie, and that they are the values, rounded.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/emulated.hpp>
#include <trilith/nn/parameter.hpp>
#include <trilith/optim/adamw.hpp>

namespace trilith {
namespace {

template <class T>
class HalfWeights : public testing::Test {
 protected:
  HalfWeights() {
    a_ = &parameters_.add({.name = "a",
                           .shape = {7, 5},
                           .partition = {.extent = 35},
                           .initial = Initial::normal,
                           .deviation = 0.02f,
                           .decays = true});
    b_ = &parameters_.add(
        {.name = "b", .shape = {3}, .partition = {.extent = 3}, .initial = Initial::ones, .adjoins = true});
    c_ = &parameters_.add({.name = "c", .shape = {9}, .partition = {.extent = 9}});
    parameters_.allocate(memory_);
    parameters_.initialize(stream_, 1);
  }

  void expect_rounded() const {
    for (const Parameter<T>& p : parameters_) {
      for (Index i = 0; i < p.value.size(); ++i) {
        EXPECT_EQ(p.weight(i).bits, T(p.value(i)).bits) << p.spec.name << ", " << i;
      }
    }
  }

  const Emulated::Stream stream_;
  Emulated::memory memory_{Place{.poison = true}};
  Parameters<Emulated, T> parameters_{0};
  const Parameter<T>* a_;
  const Parameter<T>* b_;
  const Parameter<T>* c_;
};

using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfWeights, Halves);

TYPED_TEST(HalfWeights, LieAtTheOffsetsOfTheirValuesAndBeginCacheLines) {
  const auto line = [](const auto* data) { return reinterpret_cast<std::uintptr_t>(data) % 64; };
  for (const auto* p : {this->a_, this->b_, this->c_}) {
    EXPECT_EQ(p->weight.data() - this->parameters_.weights().data(), p->offset);
    EXPECT_EQ(p->value.data() - this->parameters_.values().data(), p->offset);
  }
  EXPECT_EQ(this->b_->weight.data(), this->a_->weight.data() + 35);
  EXPECT_EQ(line(this->c_->weight.data()), 0u);
  EXPECT_EQ(line(this->c_->value.data()), 0u);
}

TYPED_TEST(HalfWeights, AreTheValuesRoundedFromTheStartAndAfterEachUpdate) {
  this->expect_rounded();
  EXPECT_EQ(static_cast<float>(this->b_->weight(2)), 1.0f);
  AdamWOptimizer<Emulated, TypeParam> optimizer(this->stream_, this->parameters_, this->memory_);
  for (int step = 1; step <= 3; ++step) {
    for (const Parameter<TypeParam>& p : this->parameters_) {
      for (Index i = 0; i < p.gradient.size(); ++i) p.gradient(i) = static_cast<float>(i % 5 - 2);
    }
    const float before = this->a_->value(3);
    optimizer.update(this->stream_, {.learning_rate = 1e-3f}, step, 1);
    EXPECT_NE(this->a_->value(3), before);
    this->expect_rounded();
  }
}

TYPED_TEST(HalfWeights, AreCopiedFromValuesThatOthersWrite) {
  this->c_->value(4) = 0.3f;
  this->parameters_.copy_values(this->stream_);
  this->expect_rounded();
}

}  // namespace
}  // namespace trilith
