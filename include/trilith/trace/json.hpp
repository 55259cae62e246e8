// The figures of a timeline as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <trilith/core/ratio.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

// Keys in the order in which they are written. Times are in the timeline's unit; in-flight counts are per
// chunk.
inline nlohmann::ordered_json json(const Timeline& timeline) {
  const auto share = [](Ratio ratio) {
    return nlohmann::ordered_json{
        {"fraction", std::to_string(ratio.numerator) + "/" + std::to_string(ratio.denominator)},
        {"percent", 100 * ratio.value()}};
  };
  nlohmann::ordered_json result{{"policy", timeline.name},
                                {"p", timeline.ranks()},
                                {"m", timeline.microbatches},
                                {"chunks", timeline.chunks},
                                {"makespan", timeline.makespan},
                                {"bubble", share(timeline.bubble)},
                                {"bubble_of_ideal", share(timeline.bubble_of_ideal)},
                                {"messages", timeline.messages.size()}};
  for (const Lane& lane : timeline.lanes) {
    result["busy"].push_back(lane.busy);
    result["peak_in_flight"].push_back(lane.peak);
  }
  return result;
}

}  // namespace trilith::inline v0::trace
