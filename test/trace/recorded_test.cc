// What a training step has recorded: on real ranks, in real time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <trilith/core/recorder.hpp>
#include <trilith/trace/chrome.hpp>
#include <trilith/trace/html.hpp>
#include <trilith/trace/recorded.hpp>
#include <trilith/trace/svg.hpp>
#include <trilith/trilith.hpp>

#include "test/reference/random.hpp"
#include "test/trace/strict_reading.hpp"
#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

using schedule::Pass;

constexpr GptShape shape{.layers = 5, .hidden = 24, .heads = 3, .positions = 16, .vocabulary = 37};
constexpr int microbatches = 6;
constexpr Index sequences = 12, length = 11;

Batch some_batch(int seed = 1) {
  return reference::random_batch(shape, sequences, length, seed);
}

// A trainer of two pipelines of two ranks, or of another layout.
template <class Layout>
struct Recorded {
  ThreadWorld world{Trainer<Gpt, Layout>::parallel.world()};
  Trainer<Gpt, Layout> trainer{
      shape,
      world,
      {.batch = sequences, .sequence = length, .microbatches = microbatches, .threads_per_rank = 1}};
};
template <class Policy>
using Layout = Config<Parallelism<1, 2, 2>, Schedule<Policy>>;

int count(const trace::Events& events, Activity activity) {
  return static_cast<int>(std::count_if(events.begin(), events.end(),
                                        [&](const Event& event) { return event.activity == activity; }));
}

template <class Policy>
class RecordedStep : public testing::Test {
 protected:
  RecordedStep() {
    trainer().record(true);
    trainer().step(some_batch());
  }
  auto& trainer() { return recorded_.trainer; }
  const schedule::Pipeline& pipeline() { return trainer().plan().pipeline; }
  const trace::Events& events(int rank) { return trainer().rank(rank).events(); }

  Recorded<Layout<Policy>> recorded_;
};
using Policies = testing::Types<GPipe, OneFOneB, Interleaved<2>, ZeroBubbleH1, ZeroBubbleV, DualPipeV>;
TYPED_TEST_SUITE(RecordedStep, Policies);

TYPED_TEST(RecordedStep, HasEachActionOfTheProgramInOrder) {
  for (int rank = 0; rank < this->recorded_.world.size(); ++rank) {
    int next = 0;
    for (const Event& event : this->events(rank)) {
      if (event.activity == Activity::action) {
        EXPECT_EQ(event.index, next++);
      }
    }
    const int place = this->trainer().rank(rank).coordinate().pipeline;
    EXPECT_EQ(next, static_cast<int>(this->pipeline().programs[place].size())) << "rank " << rank;
  }
}

TYPED_TEST(RecordedStep, HasEachExchangePostedAndWaitedForOnce) {
  for (int rank = 0; rank < this->recorded_.world.size(); ++rank) {
    const int place = this->trainer().rank(rank).coordinate().pipeline;
    std::map<int, std::int64_t> posted;
    std::set<int> waited;
    for (const Event& event : this->events(rank)) {
      if (event.activity == Activity::post) {
        EXPECT_TRUE(posted.emplace(event.index, event.end).second);
      }
      if (event.activity == Activity::wait) {
        EXPECT_TRUE(waited.insert(event.index).second);
        ASSERT_TRUE(posted.contains(event.index));
        EXPECT_GE(event.begin, posted[event.index]);
      }
    }
    EXPECT_EQ(posted.size(), this->trainer().plan().exchanges[place].size());
    EXPECT_EQ(waited.size(), posted.size());
  }
}

TYPED_TEST(RecordedStep, HasWhatComesBeforeAndAfterTheProgramOnce) {
  for (int rank = 0; rank < this->recorded_.world.size(); ++rank) {
    const trace::Events& events = this->events(rank);
    EXPECT_EQ(events.front().activity, Activity::load_batch);
    std::vector<Activity> after{Activity::reduce_gradients, Activity::sum_loss, Activity::gradient_norm,
                                Activity::update};
    const int place = this->trainer().rank(rank).coordinate().pipeline;
    const int last_stage = this->pipeline().stages() - 1;
    if (place == this->pipeline().place_of(0).first || place == this->pipeline().place_of(last_stage).first) {
      after.insert(after.begin(), Activity::reduce_tied);
    }
    std::vector<Activity> last;
    for (auto event = events.end() - static_cast<std::ptrdiff_t>(after.size()); event != events.end();
         ++event) {
      last.push_back(event->activity);
      EXPECT_EQ(count(events, event->activity), 1);
    }
    EXPECT_EQ(last, after);
  }
}

TYPED_TEST(RecordedStep, DoesOneThingAtATimeOnEachRank) {
  for (int rank = 0; rank < this->recorded_.world.size(); ++rank) {
    std::int64_t free = 0;
    for (const Event& event : this->events(rank)) {
      EXPECT_GE(event.begin, free);
      EXPECT_GE(event.end, event.begin);
      free = event.end;
    }
  }
}

TYPED_TEST(RecordedStep, StartsEachPassAfterWhatItNeeds) {
  const schedule::Pipeline& pipeline = this->pipeline();
  const std::vector<trace::Timeline> timelines = trace::recorded(this->trainer());
  ASSERT_EQ(timelines.size(), 2u);
  for (const trace::Timeline& timeline : timelines) {
    std::map<std::pair<int, int>, trace::Time> output, gradient;  // (stage, microbatch): when it was made
    const auto each = [&](auto&& visit) {
      for (int rank = 0; rank < timeline.ranks(); ++rank) {
        for (const trace::Block& block : timeline.lanes[rank].blocks) {
          ASSERT_EQ(block.actions.size(), 1u);
          const schedule::Action& action = block.actions[0];
          visit(block, action.pass, pipeline.stage(rank, action.chunk), action.microbatch);
        }
      }
    };
    each([&](const trace::Block& block, Pass pass, int stage, int microbatch) {
      if (pass == Pass::forward) output[{stage, microbatch}] = block.end;
      if (schedule::computes_input_gradient(pass)) gradient[{stage, microbatch}] = block.end;
    });
    EXPECT_EQ(static_cast<int>(output.size()), pipeline.stages() * microbatches);
    EXPECT_EQ(gradient.size(), output.size());
    each([&](const trace::Block& block, Pass pass, int stage, int microbatch) {
      const auto after = [&](auto& made, int from) {
        EXPECT_GE(block.start, (made[{from, microbatch}])) << "stage " << stage << " after stage " << from;
      };
      if (pass == Pass::forward) {
        if (stage > 0) after(output, stage - 1);
      } else if (pass == Pass::backward_weight) {
        after(gradient, stage);
      } else {
        after(output, stage);
        if (stage + 1 < pipeline.stages()) after(gradient, stage + 1);
      }
    });
    for (const trace::Message& message : timeline.messages) {
      EXPECT_GE(message.sent, timeline.lanes[message.from].blocks[message.from_block].end);
      EXPECT_GT(message.arrived, message.sent);
      EXPECT_LE(message.arrived, timeline.lanes[message.to].blocks[message.to_block].start);
    }
  }
}

TYPED_TEST(RecordedStep, HoldsWhatTheSchedulePromises) {
  const schedule::Pipeline& pipeline = this->pipeline();
  int first = 0;
  for (const trace::Timeline& timeline : trace::recorded(this->trainer())) {
    for (int i = 0; i < timeline.ranks(); ++i) {
      const trace::Lane& lane = timeline.lanes[i];
      EXPECT_EQ(lane.peak, pipeline.promised_peak[i]) << "pipeline rank " << i;
      EXPECT_EQ(lane.in_flight.back().amount, 0);

      // The bytes too: no more than the rank has allocated.
      const auto& rank = this->trainer().rank(
          this->trainer().parallel.group(Axis::pipeline, first)[static_cast<std::size_t>(i)]);
      std::int64_t most = 0;
      for (const trace::Level& level : lane.activation_bytes) most = std::max(most, level.amount);
      EXPECT_LE(most, static_cast<std::int64_t>(rank.memory().activations));
      if (pipeline.chunks == 1) {
        EXPECT_EQ(most, lane.peak * static_cast<std::int64_t>(rank.activation_bytes(0)));
      }
      EXPECT_GT(most, 0);
      EXPECT_EQ(lane.activation_bytes.back().amount, 0);
    }
    ++first;
  }
}

TYPED_TEST(RecordedStep, IsAChromeTraceOfAllRanks) {
  const std::vector<trace::Timeline> timelines = trace::recorded(this->trainer());
  const test::TraceReading reading =
      test::read_strictly(trace::chrome_trace(timelines, {.microseconds = 1e-3}));
  EXPECT_THAT(reading.problems, testing::IsEmpty());
  EXPECT_THAT(reading.processes,
              testing::ElementsAre(testing::Pair(1, "rank 0 (tensor 0, context 0, data 0, pipeline 0)"),
                                   testing::Pair(2, "rank 2 (tensor 0, context 0, data 0, pipeline 1)"),
                                   testing::Pair(3, "rank 1 (tensor 0, context 0, data 1, pipeline 0)"),
                                   testing::Pair(4, "rank 3 (tensor 0, context 0, data 1, pipeline 1)")));
  std::size_t actions = 0;
  for (const schedule::Program& program : this->pipeline().programs) actions += 2 * program.size();
  EXPECT_EQ(reading.actions, actions);
  EXPECT_EQ(reading.flows, 2 * timelines[0].messages.size());
  std::size_t exchanges = 0;
  for (const auto& of_rank : this->trainer().plan().exchanges) exchanges += 2 * of_rank.size();
  EXPECT_EQ(reading.slices.at("post"), exchanges);
  EXPECT_EQ(reading.slices.at("wait"), exchanges);
  EXPECT_EQ(reading.slices.at("update weights"), 4u);
}

TYPED_TEST(RecordedStep, IsDrawnAsASimulatedOneIs) {
  const trace::Timeline timeline = trace::recorded(this->trainer())[0];
  std::size_t actions = 0;
  for (const schedule::Program& program : this->pipeline().programs) actions += program.size();
  EXPECT_EQ(test::occurrences(trace::svg(timeline), "<g class=\"block\">"), actions);
  EXPECT_EQ(test::occurrences(trace::html(timeline), "\"label\":"), actions);
}

TEST(Recording, IsOffUnlessAskedForAndKeepsTheLastStep) {
  Recorded<Layout<OneFOneB>> recorded;
  auto& trainer = recorded.trainer;
  trainer.step(some_batch());
  EXPECT_TRUE(trainer.rank(0).events().empty());
  EXPECT_THROW(trace::recorded(trainer), Error);

  trainer.record(true);
  trainer.step(some_batch());
  const std::size_t one_step = trainer.rank(0).events().size();
  const std::int64_t end = trainer.rank(0).events().back().end;
  trainer.evaluate({some_batch()});
  EXPECT_EQ(trainer.rank(0).events().size(), one_step) << "an evaluation is no step";
  trainer.step(some_batch());
  EXPECT_EQ(trainer.rank(0).events().size(), one_step);
  EXPECT_GT(trainer.rank(0).events().front().begin, end);

  trainer.record(false);
  trainer.step(some_batch());
  EXPECT_TRUE(trainer.rank(0).events().empty());
}

TEST(Recording, OfAllPipelinesIsOnOneClock) {
  Recorded<Layout<OneFOneB>> recorded;
  recorded.trainer.record(true);
  recorded.trainer.step(some_batch());
  int first = 0;
  for (const trace::Timeline& timeline : trace::recorded(recorded.trainer)) {
    for (int i = 0; i < timeline.ranks(); ++i) {
      const int rank = recorded.trainer.parallel.group(Axis::pipeline, first)[static_cast<std::size_t>(i)];
      const trace::Events& events = recorded.trainer.rank(rank).events();
      const auto action = std::find_if(events.begin(), events.end(),
                                       [](const Event& event) { return event.activity == Activity::action; });
      EXPECT_EQ(timeline.origin + timeline.lanes[i].blocks.front().start, action->begin);
      EXPECT_EQ(timeline.origin + timeline.lanes[i].asides.front().start, events.front().begin);
    }
    ++first;
  }
}

TEST(Recording, ChangesNoBit) {
  Recorded<Layout<OneFOneB>> with, without;
  with.trainer.record(true);
  for (int step = 0; step < 3; ++step) {
    const StepReport a = with.trainer.step(some_batch(step));
    const StepReport b = without.trainer.step(some_batch(step));
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  }
}

// A pipeline of one rank has no exchanges; tensor ranks have a pipeline each.
TEST(Recording, OfTensorRanksIsATimelineEach) {
  Recorded<Config<Parallelism<3, 1, 1>>> recorded;
  recorded.trainer.record(true);
  recorded.trainer.step(some_batch());
  const std::vector<trace::Timeline> timelines = trace::recorded(recorded.trainer);
  ASSERT_EQ(timelines.size(), 3u);
  for (const trace::Timeline& timeline : timelines) {
    EXPECT_EQ(timeline.lanes.at(0).blocks.size(), 2u * microbatches);
    EXPECT_TRUE(timeline.messages.empty());
  }
  EXPECT_EQ(timelines[2].lanes[0].name, "rank 2 (tensor 2, context 0, data 0, pipeline 0)");
}

}  // namespace
}  // namespace trilith
