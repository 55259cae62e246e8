// How actions are written and painted, alike in every picture.
//
// Forward is blue, backward a dark teal, its input part light teal, its weight part pale green. In grey their
// order is backward, forward, input, weight, from dark to pale, each well apart from the next. Every action
// also carries its letter.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include <trilith/core/ratio.hpp>
#include <trilith/schedule/action.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

struct Paint {
  char letter;
  const char* words;
  const char* fill;  // as #rrggbb
  const char* ink;   // of text on it
  int terminal[2];   // of the 256 colours of terminals: of even and of odd chunks
  int terminal_ink;
};

constexpr Paint paint(schedule::Pass pass) {
  using enum schedule::Pass;
  constexpr const char* dark = "#101418";
  constexpr const char* light = "#ffffff";
  switch (pass) {
    case forward: return {'F', name_of(pass), "#5b95f5", dark, {69, 111}, 16};
    case backward: return {'B', name_of(pass), "#0b5f58", light, {23, 29}, 231};
    case backward_input: return {'I', name_of(pass), "#7fd6cc", dark, {80, 116}, 16};
    case backward_weight: return {'W', name_of(pass), "#d8f3c6", dark, {157, 194}, 16};
  }
  return {};
}

constexpr schedule::Pass passes[] = {schedule::Pass::forward, schedule::Pass::backward,
                                     schedule::Pass::backward_input, schedule::Pass::backward_weight};

// Whether any rank has such a pass.
inline bool has(const Timeline& timeline, schedule::Pass pass) {
  return std::any_of(timeline.lanes.begin(), timeline.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.blocks.begin(), lane.blocks.end(), [&](const Block& block) {
      return std::any_of(block.actions.begin(), block.actions.end(),
                         [&](const schedule::Action& action) { return action.pass == pass; });
    });
  });
}

// The chunk as a letter, a for the first; none where a rank has only one.
inline std::string chunk_letter(const Timeline& timeline, int chunk) {
  return timeline.chunks == 1 ? "" : std::string(1, static_cast<char>('a' + chunk % 26));
}

// F3, or F3b where ranks have several chunks.
inline std::string label(const Timeline& timeline, const schedule::Action& action) {
  return paint(action.pass).letter + std::to_string(action.microbatch) + chunk_letter(timeline, action.chunk);
}

// F3&B1 where actions are fused.
inline std::string label(const Timeline& timeline, const Block& block) {
  std::string text;
  for (const schedule::Action& action : block.actions) {
    text += (text.empty() ? "" : "&") + label(timeline, action);
  }
  return text;
}

// F3b of rank 1: what the message carries the output of.
inline std::string origin(const Timeline& timeline, const Message& message) {
  for (const schedule::Action& action : timeline.lanes[message.from].blocks[message.from_block].actions) {
    const bool forward = action.pass == schedule::Pass::forward;
    if (action.microbatch == message.microbatch && action.chunk == message.from_chunk &&
        forward == (message.pass == schedule::Pass::forward)) {
      return label(timeline, action) + " of rank " + std::to_string(message.from);
    }
  }
  return "";
}

// The block in words, a line each: its actions, its times, what it waited for.
inline std::string describe(const Timeline& timeline, int rank, const Block& block) {
  std::string text;
  for (const schedule::Action& action : block.actions) {
    text += label(timeline, action) + ": " + paint(action.pass).words + " of microbatch " +
            std::to_string(action.microbatch) + ", stage " +
            std::to_string(timeline.stage(rank, action.chunk)) + "\n";
  }
  if (block.actions.size() > 1) text += "overlapped as one\n";
  text += "start " + std::to_string(block.start) + ", end " + std::to_string(block.end) + "\n";
  if (block.last_input < 0) return text + "needs nothing from another rank";
  const Message& message = timeline.messages[block.last_input];
  const std::string what = origin(timeline, message);
  if (block.waited > 0) return text + "waited " + std::to_string(block.waited) + " for " + what;
  return text + "did not wait: " + what + " was there at " + std::to_string(message.arrived);
}

// 3/11 (27.3 %)
inline std::string with_percent(Ratio ratio) {
  char percent[32];
  std::snprintf(percent, sizeof percent, " (%.1f %%)", 100 * ratio.value());
  return std::to_string(ratio.numerator) + "/" + std::to_string(ratio.denominator) + percent;
}

inline std::string title(const Timeline& timeline) {
  std::string text = timeline.name + ", p=" + std::to_string(timeline.ranks()) +
                     ", m=" + std::to_string(timeline.microbatches);
  if (timeline.chunks > 1) text += ", v=" + std::to_string(timeline.chunks);
  return text;
}

inline std::string figures(const Timeline& timeline) {
  return "makespan " + std::to_string(timeline.makespan) + ", bubble " + with_percent(timeline.bubble) +
         " of all time, " + with_percent(timeline.bubble_of_ideal) + " of busy time";
}

// Text for XML and HTML.
inline std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

}  // namespace trilith::inline v0::trace
