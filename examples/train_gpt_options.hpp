// What train_gpt can be told on its command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include <trilith/mask/split.hpp>
#include <trilith/train/load_corpus.hpp>
#include <trilith/train/trainer_options.hpp>

struct TrainGptOptions {
  std::string data = trilith::debian_license_texts;
  std::string model = "gpt";  // or "llama"
  int layers = 4;
  int hidden = 128;
  int vocabulary = 256;
  std::optional<int> heads;  // as given; a checkpoint may say otherwise
  std::optional<int> kv_heads;
  std::optional<int> feed_forward;
  bool tied = false;
  trilith::TrainerOptions trainer{.batch = 32,
                                  .sequence = 128,
                                  .microbatches = 4,
                                  .optimizer = {.beta2 = 0.99f},
                                  .learning_rate = {.peak = 3e-3, .least = 3e-4, .warm_up = 40, .steps = 600},
                                  .seed = 1};
  std::string init;
  std::string save;
  std::string metrics;
  std::string trace;
  std::optional<std::int64_t> trace_step;
  std::string prompt;
  int sample = 240;
  double temperature = 0.8;
  bool ledger = false;

  void add_to(CLI::App& app) {
    app.add_option("--data", data, "text file, folder of texts, or token shards (.bin)")
        ->capture_default_str();

    app.add_option("--model", model, "gpt: a GPT-2; llama: a Llama")
        ->capture_default_str()
        ->check(CLI::IsMember({"gpt", "llama"}));
    model_options_ =
        app.add_option_group("shape", "of the model; with --init, the checkpoint says all of it");
    add(*model_options_, "--layers", layers, "transformer blocks");
    add(*model_options_, "--hidden", hidden, "hidden units");
    add(*model_options_, "--vocabulary", vocabulary, "tokens; 256 for text as bytes");
    llama_options_ = model_options_->add_option_group("llama", "for a Llama alone");
    llama_options_->add_option("--kv-heads", kv_heads, "heads of keys and values [as many as of queries]");
    llama_options_->add_option("--feed-forward", feed_forward,
                               "units of a block's SwiGLU [8/3 of --hidden, up to a multiple of 8]");
    llama_options_->add_flag("--tied", tied, "the output head is the embedding's table, as in every GPT-2");
    app.add_option("--heads", heads, "attention heads [4, or what the checkpoint says]");

    add(app, "--sequence", trainer.sequence, "tokens of a sequence");
    app.add_flag_callback(
        "--pad", [this] { trainer.padding = trilith::Padding::yes; },
        "pad sequences that the context ranks cannot split evenly");
    add(app, "--batch", trainer.batch, "sequences of a step, over all data ranks");
    add(app, "--microbatches", trainer.microbatches, "of each data rank, in a step");
    add(app, "--steps", trainer.learning_rate.steps, "steps of training");
    add(app, "--learning-rate", trainer.learning_rate.peak, "at its peak");
    add(app, "--least-learning-rate", trainer.learning_rate.least, "at the end of the cosine");
    add(app, "--warm-up", trainer.learning_rate.warm_up, "steps until the peak");
    add(app, "--weight-decay", trainer.optimizer.weight_decay, "of matrices and embeddings");
    add(app, "--clip", trainer.clip, "largest norm of the gradients; 0 does not clip");
    add(app, "--seed", trainer.seed, "of initial weights, batches and the sample");
    app.add_option("--threads", trainer.threads_per_rank, "threads of each rank [cores / ranks]");
    app.add_option("--layers-per-stage", trainer.layers_per_stage, "for example 7,5 [split by cost]")
        ->delimiter(',');

    add_file(app, "--init", init, "start from the weights of this safetensors file");
    add_file(app, "--save", save, "write the trained weights to this safetensors file");
    add_file(app, "--metrics", metrics, "write a line of JSON for each step to this file");
    CLI::Option* traced = add_file(
        app, "--trace", trace,
        "write what each rank does in one step to this file, a Chrome trace; ui.perfetto.dev opens it");
    app.add_option("--trace-step", trace_step, "which step that is, from 1 [the last]")->needs(traced);
    app.add_option("--prompt", prompt, "text that the sample continues [held-out text]");
    add(app, "--sample", sample, "tokens of the sample; 0 for none");
    add(app, "--temperature", temperature, "of the sample; 0 takes the likeliest token");
    app.add_flag("--ledger", ledger, "show what rank 0 has communicated");
  }

  bool describes_model() const { return model_options_->count_all() > 0; }
  bool describes_llama() const { return llama_options_->count_all() > 0; }

 private:
  template <class T>
  static void add(CLI::App& app, const char* name, T& value, const char* text) {
    app.add_option(name, value, text)->capture_default_str()->check([](const std::string& given) {
      return given.starts_with('-') ? "must not be negative, but is " + given : "";
    });
  }

  static CLI::Option* add_file(CLI::App& app, const char* name, std::string& file, const char* text) {
    return app.add_option(name, file, text)->check([](const std::string& given) {
      return given.empty() ? "must name a file" : "";
    });
  }

  CLI::App* model_options_ = nullptr;
  CLI::App* llama_options_ = nullptr;
};
