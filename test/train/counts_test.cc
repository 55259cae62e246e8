// Law 5, counts: what a step communicates, read from the ledger of every rank, call by call.
//
// On the tensor axis a layer makes 2 all-reduces forward and 2 backward per microbatch, each of batch ×
// sequence × hidden elements. The model makes some of its own:
//
//   embedding   1 of that size forward, on the first stage
//   head        1 of that size backward and 2 small ones forward (maxima; sums and target logits), on the
//   last norm        1 a step, of a float64 for each tensor
//
// With TP = 1 the tensor group has no entry at all. A Llama makes as many as a GPT: its queries, keys and
// values, and its gates and ups, take one all-reduce of their input's gradient together.

#include <cstdint>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/reference/random.hpp"
#include "test/train/any_trainer.hpp"
#include "test/train/llama_models.hpp"

namespace trilith::test {
namespace {

constexpr GptShape shape{.layers = 5, .hidden = 20, .heads = 4, .positions = 12, .vocabulary = 37};
// Of the same layers, hidden units and vocabulary.
constexpr LlamaShape llama{.layers = 5,
                           .hidden = 20,
                           .heads = 8,
                           .kv_heads = 4,
                           .head_dimension = 6,
                           .feed_forward = 28,
                           .positions = 12,
                           .vocabulary = 37};
constexpr Index length = 11;
constexpr Index sequences = 2;  // of a microbatch
constexpr Index rows = sequences * length;
constexpr std::int64_t activation_bytes = rows * shape.hidden * 4;

std::int64_t calls(const Ledger& ledger, const std::string& group) {
  std::int64_t calls = 0;
  for (const auto& [key, entry] : ledger.entries()) calls += key.group == group ? entry.calls : 0;
  return calls;
}

enum class Model { gpt, llama, tied_llama, replicated_llama };

struct Counted {
  Layout layout;
  int microbatches;
  Model model = Model::gpt;

  friend std::ostream& operator<<(std::ostream& out, const Counted& c) { return out << c.name(); }

  std::string name() const {
    const char* const models[] = {"", "Llama", "TiedLlama", "ReplicatedLlama"};
    return models[static_cast<int>(model)] + std::string("TP") + std::to_string(layout.tensor) + "PP" +
           std::to_string(layout.pipeline) + "DP" + std::to_string(layout.data) +
           (layout.schedule == Policy::gpipe ? "GPipe" : "") + "m" + std::to_string(microbatches);
  }
};

LlamaShape llama_of(Model model) {
  if (model == Model::tied_llama) return tied(llama);
  return model == Model::replicated_llama ? replicated(llama, 2) : llama;
}

class Counts : public testing::TestWithParam<Counted> {
 protected:
  Counts() {
    const auto& [layout, m, model] = GetParam();
    batch_ = reference::random_batch(shape, sequences * m * layout.data, length, 1);
    trainer_ = model == Model::gpt ? make_trainer(layout, shape, options_for(batch_, m))
                                   : make_trainer(layout, llama_of(model), options_for(batch_, m));
  }

  // The table that the embedding shares with the head.
  std::string tied_table() const {
    switch (GetParam().model) {
      case Model::gpt: return "wte.weight";
      case Model::llama:
      case Model::replicated_llama: return "";
      case Model::tied_llama: return "model.embed_tokens.weight";
    }
    return "";
  }

  // The ledger of each rank, of `act` alone.
  template <class Act>
  std::vector<Ledger> ledgers_of(Act&& act) {
    for (int rank = 0; rank < trainer_->ranks(); ++rank) trainer_->ledger(rank).clear();
    act();
    std::vector<Ledger> ledgers;
    for (int rank = 0; rank < trainer_->ranks(); ++rank) ledgers.push_back(trainer_->ledger(rank));
    return ledgers;
  }

  const StageRange& stage_of(int rank) const {
    return trainer_->stages()[GetParam().layout.shape().coordinate_of(rank).pipeline];
  }

  Batch batch_;
  std::unique_ptr<AnyTrainer> trainer_;
};

TEST_P(Counts, TwoAllReducesForwardAndTwoBackwardPerLayerAndMicrobatch) {
  const auto& [layout, m, model] = GetParam();
  const auto forward = ledgers_of([&] { trainer_->evaluate({batch_}); });
  const auto step = ledgers_of([&] { trainer_->step(batch_); });
  for (int rank = 0; rank < trainer_->ranks(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    if (layout.tensor == 1) {
      EXPECT_EQ(calls(forward[rank], "tensor"), 0);
      EXPECT_EQ(calls(step[rank], "tensor"), 0);
      continue;
    }
    const auto all_reduces = [&](const Ledger& ledger, std::int64_t bytes) {
      const Ledger::Entry entry = ledger.total("tensor", Collective::all_reduce, bytes);
      EXPECT_EQ(entry.bytes, entry.calls * bytes);
      // A ring sends each element 2(t − 1)/t times.
      EXPECT_DOUBLE_EQ(entry.bytes_on_wire,
                       2.0 * (layout.tensor - 1) / layout.tensor * static_cast<double>(entry.bytes));
      return entry.calls;
    };
    const StageRange& stage = stage_of(rank);
    const std::int64_t forwards = all_reduces(forward[rank], activation_bytes);
    const std::int64_t backwards = all_reduces(step[rank], activation_bytes) - forwards;
    EXPECT_EQ(forwards, m * (2 * stage.layers + (stage.first ? 1 : 0)));
    EXPECT_EQ(backwards, m * (2 * stage.layers + (stage.last ? 1 : 0)));

    const std::int64_t head = stage.last ? m : 0;
    const std::int64_t tensors = std::ssize(trainer_->tensors());
    for (const auto& ledger : {forward[rank], step[rank]}) {
      EXPECT_EQ(all_reduces(ledger, rows * 4), head) << "maxima of logits";
      EXPECT_EQ(all_reduces(ledger, 2 * rows * 4), head) << "sums, and logits of targets";
    }
    EXPECT_EQ(all_reduces(step[rank], tensors * 8), 1) << "the norm";
    EXPECT_EQ(calls(forward[rank], "tensor"), forwards + 2 * head) << "all there is";
    EXPECT_EQ(calls(step[rank], "tensor"), forwards + backwards + 2 * head + 1) << "all there is";
  }
}

// The whole gradient buffer, but for the gap behind a tied table, which goes by itself.
Index reduced_elements(const Parameters<Host>& parameters, const std::string& tied_table) {
  Index gap = 0;
  for (const Parameter<float>& p : parameters) {
    if (p.spec.name == tied_table) gap = (16 - p.gradient.size() % 16) % 16;
  }
  return parameters.size() - gap;
}

// Each gradient is summed over data ranks exactly once; beside them go the loss and the count of valid
// tokens.
TEST_P(Counts, EachGradientIsReducedOnceOverDataRanks) {
  const auto& [layout, m, model] = GetParam();
  const auto step = ledgers_of([&] { trainer_->step(batch_); });
  for (int rank = 0; rank < trainer_->ranks(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const Ledger::Entry all = step[rank].total("data", Collective::all_reduce);
    const Index elements = reduced_elements(trainer_->parameters(rank), tied_table());
    EXPECT_EQ(all.bytes, layout.data == 1 ? 0 : elements * 4 + 2 * 8);
    EXPECT_EQ(calls(step[rank], "data"), all.calls) << "all-reduces are all there is";
  }
}

// Stages hand on each microbatch's activations once forward, their gradients once backward. The two copies
// of the tied table meet once a step.
TEST_P(Counts, StagesSendEachMicrobatchOnceEachWay) {
  const auto& [layout, m, model] = GetParam();
  const auto step = ledgers_of([&] { trainer_->step(batch_); });
  for (int rank = 0; rank < trainer_->ranks(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const StageRange& stage = stage_of(rank);
    const std::int64_t neighbours = (stage.first ? 0 : 1) + (stage.last ? 0 : 1);
    for (const Collective kind : {Collective::send, Collective::receive}) {
      const Ledger::Entry entry = step[rank].total("pipeline", kind);
      EXPECT_EQ(entry.calls, m * neighbours) << name_of(kind);
      EXPECT_EQ(entry.bytes, entry.calls * activation_bytes) << name_of(kind);
    }
    const bool meets = layout.pipeline > 1 && tied_table() != "" && (stage.first || stage.last);
    const std::int64_t part = ceil_divide(shape.vocabulary, layout.tensor);
    EXPECT_EQ(calls(step[rank], "embedding"), meets ? 1 : 0);
    EXPECT_EQ(step[rank].total("embedding", Collective::all_reduce).bytes,
              meets ? part * shape.hidden * 4 : 0);
  }
}

// Where two tensor ranks hold the same key/value heads, they sum what each has of their gradients, once a
// step: of the keys' weights and of the values'.
TEST_P(Counts, CopiesOfKeyValueHeadsMeetOnceAStep) {
  const auto& [layout, m, model] = GetParam();
  const auto forward = ledgers_of([&] { trainer_->evaluate({batch_}); });
  const auto step = ledgers_of([&] { trainer_->step(batch_); });
  for (int rank = 0; rank < trainer_->ranks(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const bool has_copies = model == Model::replicated_llama && layout.tensor == 4;
    const std::int64_t expected = has_copies ? 2 * stage_of(rank).layers : 0;
    EXPECT_EQ(calls(forward[rank], "copies"), 0);
    EXPECT_EQ(calls(step[rank], "copies"), expected);
    EXPECT_EQ(step[rank].total("copies", Collective::all_reduce).bytes,
              expected * llama.head_dimension * llama.hidden * 4);
  }
}

TEST_P(Counts, EveryStepIsTheSame) {
  const auto first = ledgers_of([&] { trainer_->step(batch_); });
  const auto second = ledgers_of([&] { trainer_->step(batch_); });
  for (int rank = 0; rank < trainer_->ranks(); ++rank) {
    ASSERT_EQ(first[rank].entries().size(), second[rank].entries().size());
    for (const auto& [key, entry] : first[rank].entries()) {
      EXPECT_EQ(entry.calls, second[rank].entries().at(key).calls) << key.group << " " << name_of(key.kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Counts,
    testing::Values(Counted{{1, 1, 1}, 1}, Counted{{1, 2, 2}, 3}, Counted{{2, 1, 1}, 1},
                    Counted{{2, 1, 1}, 4}, Counted{{4, 1, 1}, 2}, Counted{{2, 2, 1}, 3},
                    Counted{{2, 4, 1, Policy::gpipe}, 5}, Counted{{2, 4, 1}, 2}, Counted{{4, 2, 2}, 2},
                    Counted{{2, 2, 2, Policy::gpipe}, 4}, Counted{{1, 2, 2}, 3, Model::llama},
                    Counted{{2, 1, 1}, 4, Model::llama}, Counted{{4, 2, 2}, 2, Model::llama},
                    Counted{{4, 2, 1}, 2, Model::replicated_llama},
                    Counted{{2, 1, 1}, 1, Model::replicated_llama}, Counted{{1, 2, 1}, 2, Model::tied_llama},
                    Counted{{2, 4, 1}, 2, Model::tied_llama}),
    [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace trilith::test
