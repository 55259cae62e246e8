// Gradients are summed over data ranks bucket by bucket: every element once, each bucket when its last
// gradient is final and not before.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/device/host.hpp>
#include <trilith/optim/gradient_reducer.hpp>

namespace trilith {
namespace {

struct Stream {};

// One of `ranks` data ranks; writes down what is reduced, and what is waited for.
class RecordingGroup {
 public:
  using stream = Stream;
  struct [[nodiscard]] Handle {
    std::vector<Vector<float>>* waited = nullptr;
    Vector<float> part = {};
    void wait(const Stream&) {
      if (waited != nullptr) std::exchange(waited, nullptr)->push_back(part);
    }
  };
  using handle = Handle;

  explicit RecordingGroup(int ranks) : ranks_(ranks) {}

  int rank() const { return 0; }
  int size() const { return ranks_; }
  std::vector<int> members() const { return {}; }

  template <class T>
  handle all_reduce(const stream&, Vector<T> buffer, Reduction = Reduction::sum) {
    if constexpr (!std::is_same_v<T, float>) return {};
    begun.push_back(buffer);
    return {&waited, buffer};
  }
  // A reducer has no use for the others.
  template <class T>
  handle reduce_scatter(const stream&, Vector<const T>, Vector<std::type_identity_t<T>>) {
    return {};
  }
  template <class T>
  handle all_gather(const stream&, Vector<const T>, Vector<std::type_identity_t<T>>) {
    return {};
  }
  template <class T>
  handle broadcast(const stream&, Vector<T>, int) {
    return {};
  }
  template <class T>
  handle ring_shift(const stream&, Vector<const T>, Vector<std::type_identity_t<T>>) {
    return {};
  }
  handle exchange(const stream&, std::span<const Message>) { return {}; }
  handle barrier(const stream&) { return {}; }

  std::vector<Vector<float>> begun;
  std::vector<Vector<float>> waited;

 private:
  int ranks_;
};

using Reducer = GradientReducer<RecordingGroup>;

struct Case {
  const char* what;
  Reducer::Range apart;
  std::vector<std::pair<Index, Index>> finals;  // as a backward pass reports them
};

constexpr Index size = 100;

const std::vector<Case> cases = {
    {"a stage in the middle", {}, {{70, 100}, {40, 70}, {0, 40}}},
    {"a table first", {0, 30}, {{80, 100}, {45, 80}, {30, 45}}},
    {"a table last", {90, 100}, {{50, 90}, {0, 50}}},
    {"a table between", {20, 33}, {{33, 100}, {0, 20}}},
    {"all at once", {}, {{0, 100}}},
};

TEST(GradientReducer, ReducesEachElementOnceWhenItsBucketIsFinal) {
  for (const auto& [what, apart, finals] : cases) {
    for (const Index bucket : {1, 7, 10, 33, 64, 100, 1000}) {
      SCOPED_TRACE(std::string(what) + ", buckets of " + std::to_string(bucket));
      std::vector<float> gradients(size);
      RecordingGroup group(2);
      Reducer reducer(group, {gradients.data(), {size}}, apart, bucket);
      for (int step = 0; step < 2; ++step) {
        std::vector<bool> final(size, false);
        std::vector<int> reduced(size, 0);
        group.begun.clear();
        group.waited.clear();
        reducer.begin();
        for (const auto& [first, last] : finals) {
          std::fill(final.begin() + first, final.begin() + last, true);
          const std::size_t before = group.begun.size();
          reducer.final({}, first, last);
          for (std::size_t i = before; i < group.begun.size(); ++i) {
            EXPECT_LE(group.begun[i].size(), bucket);
            const Index begin = group.begun[i].data() - gradients.data();
            for (Index e = begin; e < begin + group.begun[i].size(); ++e) {
              EXPECT_TRUE(final[e]) << "element " << e << " is not final";
              ++reduced[e];
            }
          }
        }
        // As soon as that: nothing is left for the end of the step but to wait.
        for (Index e = 0; e < size; ++e) {
          EXPECT_EQ(reduced[e], e >= apart.first && e < apart.last ? 0 : 1) << "element " << e;
        }
        reducer.finish({});
        EXPECT_EQ(group.waited.size(), group.begun.size());
      }
    }
  }
}

TEST(GradientReducer, DoesNothingOnOneRank) {
  std::vector<float> gradients(size);
  RecordingGroup group(1);
  Reducer reducer(group, {gradients.data(), {size}}, {}, 7);
  reducer.begin();
  reducer.final({}, 0, size);
  reducer.finish({});
  EXPECT_TRUE(group.begun.empty());
}

}  // namespace
}  // namespace trilith
