// Draws pipeline schedules, and compares them: what each rank does and when, how long it is idle, what it
// holds.
//
//     ./bazelw run //examples:draw_schedule -- --policy ZeroBubbleH1 --ranks 4 --microbatches 8
//     ./bazelw run //examples:draw_schedule -- --policy Interleaved --chunks 2 --html timeline.html
//     ./bazelw run //examples:draw_schedule -- --compare --ranks 8 --microbatches 64 --message 1

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>
#include <trilith/schedule/dual_pipe_v.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/laws.hpp>
#include <trilith/schedule/one_f_one_b.hpp>
#include <trilith/schedule/pipeline.hpp>
#include <trilith/schedule/policy.hpp>
#include <trilith/schedule/simulate.hpp>
#include <trilith/schedule/zero_bubble_h1.hpp>
#include <trilith/schedule/zero_bubble_h2.hpp>
#include <trilith/schedule/zero_bubble_v.hpp>
#include <trilith/trace/chrome.hpp>
#include <trilith/trace/html.hpp>
#include <trilith/trace/json.hpp>
#include <trilith/trace/svg.hpp>
#include <trilith/trace/terminal.hpp>
#include <trilith/trace/timeline.hpp>

#include "output_file.hpp"
#include "schedule_options.hpp"

using namespace trilith;

namespace {

// A policy as a value.
struct AnyPolicy {
  std::string name;
  int chunks;
  int group;  // of Interleaved; 0: p
  const char* (*refusal)(int ranks, int microbatches);
  schedule::Pipeline (*pipeline)(int ranks, int microbatches);
};

template <class Policy>
AnyPolicy any(int group = 0) {
  return {Policy::name, Policy::chunks, group, schedule::refusal<Policy>, schedule::make_pipeline<Policy>};
}

constexpr int most_chunks = 6;
constexpr int largest_group = 16;

template <int V, int... N>
void add_groups(std::vector<AnyPolicy>& policies, std::integer_sequence<int, N...>) {
  (policies.push_back(any<Interleaved<V, N>>(N)), ...);
}

template <int... V>
void add_interleaved(std::vector<AnyPolicy>& policies, std::integer_sequence<int, V...>) {
  (add_groups<V + 2>(policies, std::make_integer_sequence<int, largest_group + 1>{}), ...);
}

std::vector<AnyPolicy> all_policies() {
  std::vector<AnyPolicy> policies{any<GPipe>(), any<OneFOneB>()};
  add_interleaved(policies, std::make_integer_sequence<int, most_chunks - 1>{});
  for (const AnyPolicy& policy :
       {any<ZeroBubbleH1>(), any<ZeroBubbleH2>(), any<ZeroBubbleV>(), any<DualPipeV>()}) {
    policies.push_back(policy);
  }
  return policies;
}

AnyPolicy chosen(const ScheduleOptions& options) {
  const std::vector<AnyPolicy> policies = all_policies();
  const auto named = std::find_if(policies.begin(), policies.end(),
                                  [&](const AnyPolicy& policy) { return policy.name == options.policy; });
  require(named != policies.end(), "there is no policy " + options.policy,
          "choose GPipe, OneFOneB, Interleaved, ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV or DualPipeV");
  const int chunks = options.chunks.value_or(named->chunks);
  if (options.policy != Interleaved<2>::name) {
    require(chunks == named->chunks,
            options.policy + " takes --chunks " + std::to_string(named->chunks) + ", but it is " +
                std::to_string(chunks),
            "leave --chunks out, or choose --policy Interleaved");
    require(!options.group, options.policy + " has no groups of microbatches",
            "leave --group out, or choose --policy Interleaved");
    return *named;
  }
  require(chunks >= 2 && chunks <= most_chunks,
          "Interleaved takes 2 to " + std::to_string(most_chunks) + " chunks here, but --chunks is " +
              std::to_string(chunks),
          chunks == 1 ? "choose --policy OneFOneB for one" : "choose a number among these");
  const int group = options.group.value_or(0) == options.ranks ? 0 : options.group.value_or(0);
  require(!options.group || (*options.group >= 1 && group <= largest_group),
          "--group is " + std::to_string(options.group.value_or(0)),
          "give p, or a number from 1 to " + std::to_string(largest_group));
  return *std::find_if(policies.begin(), policies.end(), [&](const AnyPolicy& policy) {
    return policy.name == options.policy && policy.chunks == chunks && policy.group == group;
  });
}

void check_sizes(const ScheduleOptions& options, int chunks) {
  require(options.ranks >= 1, "--ranks must be at least 1, but is " + std::to_string(options.ranks), "");
  require(options.microbatches >= 1,
          "--microbatches must be at least 1, but is " + std::to_string(options.microbatches), "");
  constexpr int most_ranks = 256;
  require(options.ranks <= most_ranks, std::to_string(options.ranks) + " ranks are too many to draw",
          "--ranks must be at most " + std::to_string(most_ranks));
  constexpr std::int64_t most = 1 << 16;
  require(std::int64_t{options.ranks} * chunks * options.microbatches <= most,
          std::to_string(options.ranks) + " ranks with " + std::to_string(chunks) + " chunks and " +
              std::to_string(options.microbatches) + " microbatches are too many to draw",
          "their product must be at most " + std::to_string(most));
}

// The costs of each stage.
std::vector<schedule::Cost> costs(const ScheduleOptions& options, int stages) {
  constexpr schedule::Time longest = 1'000'000'000;
  const auto of = [&](const char* name, const std::vector<schedule::Time>& given, int stage) {
    require(given.size() == 1 || static_cast<int>(given.size()) == stages,
            std::string(name) + " has " + std::to_string(given.size()) + " numbers",
            "give one for all stages, or " + std::to_string(stages));
    const schedule::Time cost = given[given.size() == 1 ? 0 : static_cast<std::size_t>(stage)];
    require(cost >= 1 && cost <= longest,
            std::string(name) + " must be from 1 to 1000000000, but is " + std::to_string(cost),
            "choose a finer unit for parts of one");
    return cost;
  };
  require(options.message >= 0 && options.message <= longest,
          "--message must be from 0 to 1000000000, but is " + std::to_string(options.message), "");
  std::vector<schedule::Cost> result;
  for (int stage = 0; stage < stages; ++stage) {
    result.push_back({.forward = of("--forward", options.forward, stage),
                      .backward_input = of("--backward-input", options.backward_input, stage),
                      .backward_weight = of("--backward-weight", options.backward_weight, stage),
                      .message = options.message});
  }
  return result;
}

trace::Timeline timeline_of(const AnyPolicy& policy, const ScheduleOptions& options,
                            const std::vector<schedule::Cost>& per_stage) {
  const schedule::Pipeline pipeline = policy.pipeline(options.ranks, options.microbatches);
  schedule::require_lawful(pipeline, policy.name);
  const auto fused = options.overlap ? schedule::Fused::larger : schedule::Fused::sum;
  std::vector<std::int64_t> activation_bytes;
  if (options.activation_bytes > 0) {
    activation_bytes.assign(per_stage.size(), static_cast<std::int64_t>(options.activation_bytes));
  }
  return trace::make_timeline(policy.name, pipeline, schedule::simulate(pipeline, per_stage, fused),
                              per_stage, activation_bytes);
}

void write(const std::string& path, const std::string& text) {
  OutputFile(path).write(text);
  std::fprintf(stderr, "wrote %s\n", path.c_str());
}

trace::TerminalOptions terminal_options(const ScheduleOptions& options) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  winsize size{};
  trace::TerminalOptions result;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) result.width = size.ws_col;
  result.width = options.width.value_or(result.width);
  result.colour = options.colour == "always" ||
                  (options.colour == "auto" && terminal && std::getenv("NO_COLOR") == nullptr);
  return result;
}

// A rank's layers cost the same under every policy: with V chunks, each of its stages has a V-th of the given
// costs. So that times stay whole, it is simulated V times as slow, and so are its messages.
void compare(const ScheduleOptions& options) {
  require(!options.chunks && !options.group, "--compare shows each policy with its own chunks",
          "leave --chunks and --group out");
  require(options.forward.size() == 1 && options.backward_input.size() == 1 &&
              options.backward_weight.size() == 1,
          "--compare takes the same costs for all stages", "give one number for each cost");
  check_sizes(options, 4);
  std::printf("p=%d, m=%d; all layers of a rank: forward %lld, backward %lld + %lld; a message: %lld\n\n",
              options.ranks, options.microbatches, static_cast<long long>(options.forward[0]),
              static_cast<long long>(options.backward_input[0]),
              static_cast<long long>(options.backward_weight[0]), static_cast<long long>(options.message));
  std::printf("%-16s %10s %20s %20s %10s %10s\n", "policy", "makespan", "idle / all time", "idle / busy time",
              "peak", "messages");
  for (const AnyPolicy& policy : all_policies()) {
    if (policy.group != 0 || policy.chunks > 4) continue;
    std::string name = policy.name;
    if (name == Interleaved<2>::name) name += "<" + std::to_string(policy.chunks) + ">";
    if (const char* refusal = policy.refusal(options.ranks, options.microbatches)) {
      std::printf("%-16s %s\n", name.c_str(), refusal);
      continue;
    }
    std::vector<schedule::Cost> per_stage = costs(options, options.ranks * policy.chunks);
    for (schedule::Cost& cost : per_stage) cost.message *= policy.chunks;
    const trace::Timeline timeline = timeline_of(policy, options, per_stage);
    int peak = 0;
    for (const trace::Lane& lane : timeline.lanes) peak = std::max(peak, lane.peak);
    std::printf("%-16s %10.6g %20s %20s %10.3g %10zu\n", name.c_str(),
                static_cast<double>(timeline.makespan) / policy.chunks,
                trace::with_percent(timeline.bubble).c_str(),
                trace::with_percent(timeline.bubble_of_ideal).c_str(),
                static_cast<double>(peak) / policy.chunks, timeline.messages.size());
  }
  std::printf(
      "\npeak: microbatches in flight on the rank that holds most, as activations of all its layers\n");
}

void run(const ScheduleOptions& options) {
  if (options.compare) return compare(options);
  const AnyPolicy policy = chosen(options);
  check_sizes(options, policy.chunks);
  const char* refusal = policy.refusal(options.ranks, options.microbatches);
  require(refusal == nullptr, refusal == nullptr ? "" : refusal,
          "p is " + std::to_string(options.ranks) + " and m is " + std::to_string(options.microbatches));
  const std::vector<schedule::Cost> per_stage = costs(options, options.ranks * policy.chunks);
  const trace::Timeline timeline = timeline_of(policy, options, per_stage);

  if (!options.svg.empty()) write(options.svg, trace::svg(timeline));
  if (!options.html.empty()) write(options.html, trace::html(timeline));
  if (!options.trace.empty()) {
    write(options.trace, trace::chrome_trace(timeline));
  }
  if (!options.json.empty()) {
    const std::string text = trace::json(timeline).dump(2) + "\n";
    options.json == "-" ? static_cast<void>(std::fputs(text.c_str(), stdout)) : write(options.json, text);
  }
  if (options.svg.empty() && options.html.empty() && options.trace.empty() && options.json.empty()) {
    std::fputs(trace::terminal(timeline, terminal_options(options)).c_str(), stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Under `bazel run`, relative paths count from where the user stands.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY")) std::filesystem::current_path(folder);

  ScheduleOptions options;
  CLI::App app("Draws pipeline schedules, and compares them.");
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
    require(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "the output could not be written",
            "make room where it goes");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "draw_schedule: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
