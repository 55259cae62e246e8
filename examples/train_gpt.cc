// Trains a GPT-2 or a Llama on text, with tensor, pipeline and data parallelism among threads of this
// process.
//
//     ./bazelw run //examples:train_gpt -- --steps 1000 --save model.safetensors
//
// The layout is a type. To choose another one without editing this file:
//
//     ./bazelw run //examples:train_gpt --//examples:layout=4x1x2 --//examples:schedule=GPipe
//     ./bazelw run //examples:train_gpt --//examples:layout=1x2x1x2 --//examples:attention=Ring,Zigzag

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <trilith/trace/chrome.hpp>
#include <trilith/trace/recorded.hpp>
#include <trilith/train/load_corpus.hpp>
#include <trilith/train/sampling.hpp>
#include <trilith/trilith.hpp>

#include "output_file.hpp"
#include "train_gpt_models.hpp"
#include "train_gpt_options.hpp"

using namespace trilith;

#ifndef TRAIN_GPT_ATTENTION
#if TRAIN_GPT_CP == 1
#define TRAIN_GPT_ATTENTION Local
#else
#define TRAIN_GPT_ATTENTION Ring, Zigzag
#endif
#endif

using Layout = Config<Parallelism<TRAIN_GPT_TP, TRAIN_GPT_PP, TRAIN_GPT_DP, TRAIN_GPT_CP>,
                      Schedule<TRAIN_GPT_SCHEDULE>, Attention<TRAIN_GPT_ATTENTION>>;

namespace {

template <class Trainer>
void print_plan(const Trainer& trainer, const Corpus& corpus) {
  constexpr ParallelShape parallel = Trainer::parallel;
  const auto& shape = trainer.plan().model;
  std::printf("model   %d layers, hidden %d, %d heads, vocabulary %d: %.2f million parameters\n",
              shape.layers, shape.hidden, shape.heads, shape.vocabulary,
              static_cast<double>(shape.parameters()) * 1e-6);
  std::printf("layout  TP=%d PP=%d DP=%d CP=%d: %d ranks, %s, layers per stage", parallel.tensor,
              parallel.pipeline, parallel.data, parallel.context, parallel.world(),
              Trainer::SchedulePolicy::name);
  for (const StageRange& stage : trainer.plan().stages) std::printf(" %d", stage.layers);
  const MemoryReport memory = trainer.rank(0).memory();
  std::printf("\nmemory  rank 0: %.1f MB weights and gradients, %.1f MB moments, %.1f MB activations\n",
              static_cast<double>(memory.parameters + memory.gradients) * 1e-6,
              static_cast<double>(memory.moments) * 1e-6, static_cast<double>(memory.activations) * 1e-6);
  std::printf("data    %s: %zu tokens to train on, %zu held out\n\n", corpus.source.c_str(),
              corpus.training.size(), corpus.validation.size());
}

// m:ss, h:mm:ss, or days.
std::string clock_time(double seconds) {
  char text[32];
  if (seconds < 100 * 3600) {
    const int whole = static_cast<int>(std::lround(seconds));
    if (whole < 3600) {
      std::snprintf(text, sizeof text, "%d:%02d", whole / 60, whole % 60);
    } else {
      std::snprintf(text, sizeof text, "%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
    }
  } else {
    std::snprintf(text, sizeof text, "%.0f d", seconds / (24 * 3600));
  }
  return text;
}

// What is written while training goes on, if it was asked for.
struct Outputs {
  explicit Outputs(const TrainGptOptions& options) {
    if (!options.metrics.empty()) metrics.emplace(options.metrics);
    if (!options.trace.empty()) trace.emplace(options.trace);
  }
  std::optional<OutputFile> metrics;
  std::optional<OutputFile> trace;
};

template <class Trainer>
void train(Trainer& trainer, const TrainGptOptions& options, const Corpus& corpus, Outputs& outputs) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  const TrainerOptions& settings = options.trainer;
  const std::int64_t steps = settings.learning_rate.steps;
  std::printf("%6s %9s %10s %9s %10s %6s\n", "step", "loss", "rate", "norm", "tokens/s", "left");
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = training_batch(corpus, settings.batch, settings.sequence, settings.seed,
                                       static_cast<std::uint64_t>(step));
    const bool traced = outputs.trace && step == options.trace_step.value_or(steps);
    if (traced) trainer.record(true);
    const StepReport report = trainer.step(batch);
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - before).count();
    const double elapsed = std::chrono::duration<double>(now - start).count();
    const double rate = static_cast<double>(settings.batch * settings.sequence) / seconds;
    const double left = elapsed / static_cast<double>(step) * static_cast<double>(steps - step);
    before = now;
    std::printf("%6ld %9.4f %10.2e %9.3f %10.0f %6s\n", static_cast<long>(step), report.loss,
                report.learning_rate, report.gradient_norm, rate, clock_time(left).c_str());
    if (outputs.metrics) {
      const nlohmann::json line{{"step", step},
                                {"loss", report.loss},
                                {"learning_rate", report.learning_rate},
                                {"gradient_norm", report.gradient_norm},
                                {"tokens_per_second", rate}};
      outputs.metrics->write(line.dump() + "\n");
    }
    if (traced) {
      trainer.record(false);
      outputs.trace->write(trace::chrome_trace(trace::recorded(trainer), {.microseconds = 1e-3}));
    }
  }
}

template <class Trainer>
void validate(Trainer& trainer, const TrainGptOptions& options, const Corpus& corpus) {
  const Index sequences = trainer.evaluation_batch();
  std::vector<Batch> batches;
  for (Index i = 0; i < validation_batches(corpus, sequences, options.trainer.sequence); ++i) {
    batches.push_back(validation_batch(corpus, sequences, options.trainer.sequence, i));
  }
  std::printf("\nvalidation loss %.4f nats per token; unigram entropy of the same text %.4f\n",
              trainer.evaluate(batches), unigram_entropy(corpus.validation));
}

// One token of the softmax of logits / temperature.
int draw(const std::vector<float>& logits, double temperature, float uniform) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<int>(likeliest - logits.begin());
  std::vector<double> weights;
  double sum = 0;
  for (const float logit : logits) {
    weights.push_back(std::exp((logit - *likeliest) / temperature));
    sum += weights.back();
  }
  double rest = uniform * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if ((rest -= weights[i]) < 0) return static_cast<int>(i);
  }
  return static_cast<int>(likeliest - logits.begin());
}

// Continues the prompt, or some of the held-out text. Bytes are shown as text, other tokens as numbers.
template <class Trainer>
void show_sample(Trainer& trainer, const TrainGptOptions& options, const Corpus& corpus) {
  constexpr std::size_t prompt_length = 64;
  constexpr std::uint64_t sample_stream = 0x73616D706C65;  // "sample" in ASCII
  std::vector<std::int32_t> tokens;
  for (const unsigned char byte : options.prompt) tokens.push_back(byte);
  if (tokens.empty()) {
    const auto middle = corpus.validation.begin() + static_cast<std::ptrdiff_t>(corpus.validation.size() / 2);
    const std::size_t count = std::min(prompt_length, corpus.validation.size() / 2);
    tokens.assign(middle, middle + static_cast<std::ptrdiff_t>(count));
  }
  const std::size_t given = tokens.size();
  const Philox random(options.trainer.seed, sample_stream);
  for (int i = 0; i < options.sample; ++i) {
    const auto seen = std::min(tokens.size(), static_cast<std::size_t>(options.trainer.sequence));
    const std::vector<std::int32_t> context(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end());
    const std::vector<float> logits = trainer.next_token_logits(context);
    tokens.push_back(draw(logits, options.temperature, random.uniform(static_cast<std::uint64_t>(i))));
  }
  std::printf("\nsample, from the prompt in brackets:\n[");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i == given) std::printf("]");
    if (corpus.vocabulary <= 256) {
      std::putchar(tokens[i]);
    } else {
      std::printf(i == 0 || i == given ? "%d" : " %d", tokens[i]);
    }
  }
  std::printf("\n");
}

// A prompt is read as bytes.
void check_prompt(const std::string& prompt, int vocabulary) {
  for (const unsigned char byte : prompt) {
    require(byte < vocabulary,
            "the prompt has the byte " + std::to_string(byte) + ", outside the model's vocabulary of " +
                std::to_string(vocabulary),
            "give a prompt of bytes that the model knows");
  }
}

void print_ledger(const Ledger& ledger) {
  std::printf(
      "\nrank 0 has communicated, in training, validation and sampling:\n%-10s %-14s %14s %10s %16s\n",
      "group", "collective", "bytes a call", "calls", "bytes sent");
  for (const auto& [key, entry] : ledger.entries()) {
    std::printf("%-10s %-14s %14ld %10ld %16.0f\n", key.group.c_str(), name_of(key.kind),
                static_cast<long>(key.bytes_per_call), static_cast<long>(entry.calls), entry.bytes_on_wire);
  }
}

// Kind: see train_gpt_models.hpp.
template <class Kind>
void run(const TrainGptOptions& options) {
  using ModelTrainer = Trainer<Kind::template Model, Layout>;
  if (!options.trace.empty()) {
    const std::int64_t steps = options.trainer.learning_rate.steps;
    const std::int64_t step = options.trace_step.value_or(steps);
    require(step >= 1 && step <= steps,
            "--trace: there is no step " + std::to_string(step) + " among --steps " + std::to_string(steps),
            "choose --trace-step from 1 to " + std::to_string(steps));
  }
  std::optional<typename Kind::Checkpoint> checkpoint;
  if (!options.init.empty()) {
    require(!options.describes_model(), "--init takes the model from the checkpoint",
            "leave out --layers, --hidden and whatever else describes a model");
    Kind::open(options, checkpoint);
  }
  const auto shape = checkpoint ? checkpoint->shape() : Kind::shape(options);
  check(shape, ModelTrainer::parallel);

  const Corpus corpus = load_corpus(options.data);
  check_tokens(corpus, shape.vocabulary);
  check_length(corpus, options.trainer.sequence);
  check_prompt(options.prompt, shape.vocabulary);

  ThreadWorld world(ModelTrainer::parallel.world());
  ModelTrainer trainer(shape, world, options.trainer);
  if (checkpoint) trainer.load(*checkpoint);
  if (!options.save.empty()) trainer.check_save(options.save);

  Outputs outputs(options);
  print_plan(trainer, corpus);
  train(trainer, options, corpus, outputs);
  validate(trainer, options, corpus);
  if (outputs.trace) std::printf("trace   %s\n", outputs.trace->path().c_str());
  if (!options.save.empty()) {
    trainer.save(options.save);
    std::printf("saved   %s\n", options.save.c_str());
  }
  if (options.sample > 0) show_sample(trainer, options, corpus);
  if (options.ledger) print_ledger(world.rank(0).ledger());
}

}  // namespace

int main(int argc, char** argv) {
  // Under `bazel run`, relative paths count from where the user stands.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY")) std::filesystem::current_path(folder);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);

  TrainGptOptions options;
  CLI::App app("Trains a GPT-2 or a Llama on text under the layout it was compiled for.");
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);
  try {
    options.model == "llama" ? run<LlamaKind>(options) : run<GptKind>(options);
    require(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "the output could not be written",
            "make room where it goes");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
