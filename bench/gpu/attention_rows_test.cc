// What proves attention on a GPU, on the host's attention: it finds that right, and every part of it wrong
// when it is.
#include "bench/gpu/attention_rows.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/device/host.hpp>

#include "test/support/attention_reference.hpp"

namespace trilith::bench {
namespace {

class AttentionRowsTest : public testing::TestWithParam<test::NamedMask> {
 protected:
  static constexpr Index sequence = 40;
  static constexpr Index dimension = 16;

  AttentionRowsTest() {
    const test::AttentionInputs x({1, sequence, sequence, 4, 2, dimension, GetParam()});
    const test::AttentionResults y = test::attend(Host::Stream(1), x);
    for (const Index head : {2, 3}) {
      group_.push_back(
          {of_head(x.q, head), of_head(x.d_out, head), of_head(y.out, head), of_head(y.dq, head), {}});
      for (Index i = 0; i < sequence; ++i) group_.back().lse.push_back(y.lse(head, i));
    }
    keys_ = {of_head(x.k, 1), of_head(x.v, 1), of_head(y.dk, 1), of_head(y.dv, 1)};
    scale_ = double{x.settings().scale};
  }

  // Of the later head's queries and of keys, in all rows that have gradients.
  AttentionErrors errors() const {
    const AttentionRows rows(sequence, dimension, GetParam().name == "causal", scale_);
    AttentionErrors worst;
    for (Index row = 1; row < sequence; ++row) {
      rows.add_query(group_.back(), keys_, row, worst);
      rows.add_key(group_, keys_, row, worst);
    }
    return worst;
  }

  static std::vector<float> of_head(const test::Tensor& x, Index head) {
    std::vector<float> values;
    for (Index row = 0; row < sequence; ++row) {
      for (Index c = 0; c < dimension; ++c) values.push_back(x(row, head * dimension + c));
    }
    return values;
  }

  std::vector<QueryHead> group_;
  KeyHead keys_;
  double scale_ = 0;
};

TEST_P(AttentionRowsTest, FindTheHostsAttentionRight) {
  EXPECT_LT(errors().out, 1e-5);
  EXPECT_LT(errors().gradients, 1e-4);  // of a last key, whose single gradient may be a small difference
}

TEST_P(AttentionRowsTest, FindEachResultWrong) {
  QueryHead& h = group_.back();
  for (std::vector<float>* result : {&h.out, &h.lse, &h.dq, &keys_.dk, &keys_.dv}) {
    for (const float wrong : {result->back() + 1, std::numeric_limits<float>::quiet_NaN()}) {
      const float right = std::exchange(result->back(), wrong);
      EXPECT_GT(std::max(errors().out, errors().gradients), 1e-2);
      result->back() = right;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, AttentionRowsTest, testing::Values(test::full, test::causal),
                         [](const auto& mask) { return mask.param.name; });

}  // namespace
}  // namespace trilith::bench
