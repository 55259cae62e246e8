// A timeline as one HTML file that loads nothing: it zooms, tells of each block what it is and what it waited
// for, and shows what each rank holds under what it does.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <trilith/trace/html_page.hpp>
#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

namespace detail {

inline nlohmann::ordered_json html_data(const Timeline& timeline) {
  nlohmann::ordered_json data{{"makespan", timeline.makespan}, {"chunks", timeline.chunks}};
  for (const schedule::Pass pass : passes) {
    if (!has(timeline, pass)) continue;
    const Paint p = paint(pass);
    data["paints"][std::string(1, p.letter)] = {{"words", p.words}, {"fill", p.fill}, {"ink", p.ink}};
  }
  for (int rank = 0; rank < timeline.ranks(); ++rank) {
    const Lane& lane = timeline.lanes[rank];
    nlohmann::ordered_json drawn{
        {"peak", lane.peak}, {"levels", nlohmann::json::array()}, {"blocks", nlohmann::json::array()}};
    for (const Level& level : lane.in_flight) drawn["levels"].push_back({level.time, level.amount});
    for (const Block& block : lane.blocks) {
      nlohmann::ordered_json entry{
          {"start", block.start}, {"end", block.end}, {"text", describe(timeline, rank, block)}};
      for (const schedule::Action& action : block.actions) {
        entry["parts"].push_back({{"pass", std::string(1, paint(action.pass).letter)},
                                  {"chunk", action.chunk},
                                  {"microbatch", action.microbatch},
                                  {"label", label(timeline, action)}});
      }
      if (block.last_input >= 0) {
        const Message& message = timeline.messages[block.last_input];
        entry["from"] = {message.from, message.from_block};
      }
      drawn["blocks"].push_back(std::move(entry));
    }
    data["lanes"].push_back(std::move(drawn));
  }
  return data;
}

}  // namespace detail

inline std::string html(const Timeline& timeline) {
  // Holds no text of a user's, and so no "</script>": the name stands only in the title.
  const std::string data = detail::html_data(timeline).dump();
  std::string page;
  const std::string form = detail::html_page;
  for (std::size_t at = 0; at < form.size();) {
    const auto fill = [&](const std::string& name, const std::string& text) {
      if (form.compare(at, name.size(), name) != 0) return false;
      page += text;
      at += name.size();
      return true;
    };
    if (fill("%TITLE%", escaped(title(timeline))) || fill("%FIGURES%", escaped(figures(timeline))) ||
        fill("%DATA%", data)) {
      continue;
    }
    page += form[at++];
  }
  return page;
}

}  // namespace trilith::inline v0::trace
