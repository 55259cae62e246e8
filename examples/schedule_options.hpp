// What schedule can be told on its command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <trilith/schedule/simulate.hpp>

struct ScheduleOptions {
  std::string policy = "OneFOneB";
  int ranks = 4;
  int microbatches = 8;
  std::optional<int> chunks;
  std::optional<int> group;
  std::vector<trilith::schedule::Time> forward = {1};  // one for all stages, or one for each; so the next two
  std::vector<trilith::schedule::Time> backward_input = {1};
  std::vector<trilith::schedule::Time> backward_weight = {1};
  trilith::schedule::Time message = 0;
  bool overlap = false;

  std::string svg;
  std::string html;
  std::string trace;
  std::string json;  // "-" for the terminal
  bool compare = false;
  std::string colour = "auto";
  std::optional<int> width;
  double activation_bytes = 0;

  void add_to(CLI::App& app) {
    app.add_option("--policy", policy,
                   "GPipe, OneFOneB, Interleaved, ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, DualPipeV")
        ->capture_default_str();
    app.add_option("--ranks", ranks, "pipeline ranks, p")->capture_default_str();
    app.add_option("--microbatches", microbatches, "of a step, m")->capture_default_str();
    app.add_option("--chunks", chunks, "stages that a rank holds; Interleaved takes 2 to 6 [2]");
    app.add_option("--group", group, "microbatches of a group of Interleaved, N [p]");

    CLI::App* costs = app.add_option_group(
        "costs", "of a stage, in any unit; one number, or one for each stage as in 2,2,3");
    costs->add_option("--forward", forward, "of a forward pass")->delimiter(',')->capture_default_str();
    costs->add_option("--backward-input", backward_input, "of the input part of a backward pass")
        ->delimiter(',')
        ->capture_default_str();
    costs->add_option("--backward-weight", backward_weight, "of the weight part")
        ->delimiter(',')
        ->capture_default_str();
    costs->add_option("--message", message, "of a message between ranks")->capture_default_str();
    costs->add_flag("--overlap", overlap, "a fused pair takes as long as the longer of the two, not as both");

    app.add_option("--svg", svg, "draw into this file");
    app.add_option("--html", html, "draw into this file, to zoom and to point at");
    app.add_option("--trace", trace, "write a Chrome trace into this file; ui.perfetto.dev opens it");
    app.add_option("--activation-bytes", activation_bytes,
                   "of a microbatch in a stage, for the trace's counter of memory");
    app.add_option("--json", json, "write figures as JSON, into this file or to the terminal")
        ->expected(0, 1)
        ->default_str("-");
    app.add_flag("--compare", compare, "a table of all policies at these numbers");
    app.add_option("--colour", colour, "auto, always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->capture_default_str();
    app.add_option("--width", width, "columns of the terminal [as it is, or 120]");
  }
};
