// Runs tests on the imitation: each on a machine of its own, which it must leave with nothing alive, nothing
// gone wrong and nothing written to after it was given back. --gtest_repeat repeats them under other seeds,
// on other numbers of GPUs.
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/cuda_runtime/machine/machine.hpp"

namespace {

namespace imitation = trilith::test::imitation;

class OnMachines : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
    constexpr int gpus[] = {2, 1, 3};
    options_.seed = static_cast<std::uint64_t>(iteration) + 1;
    options_.gpus = gpus[iteration % 3];
  }
  void OnTestStart(const testing::TestInfo&) override { imitation::plug_in(options_); }
  void OnTestEnd(const testing::TestInfo&) override {
    EXPECT_EQ(imitation::live(), imitation::Live{}) << "with seed " << options_.seed;
    EXPECT_EQ(imitation::fault(), "") << "with seed " << options_.seed;
    EXPECT_FALSE(imitation::disturbed()) << "memory was written to after it was given back";
  }

  imitation::Options options_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new OnMachines);
  return RUN_ALL_TESTS();
}
