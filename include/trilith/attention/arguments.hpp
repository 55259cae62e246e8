// What a call of attention is given, looked at before any of it is touched or sent: a wrong view would read
// another tensor's memory, and a number that is none would come back as NaN from every rank.
#pragma once

#include <cstddef>
#include <string>

#include <trilith/core/error.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/ops/attention.hpp>

namespace trilith::inline v0::detail {

// Throws where they are not those of attention with `heads` heads of queries.
inline void check_settings(const ops::AttentionSettings& settings, Index heads) {
  ops::detail::require_score_settings(settings);
  if (settings.has_sinks() && settings.sinks.size() != heads) {
    throw Error("attention of " + std::to_string(heads) + " heads got " +
                    std::to_string(settings.sinks.size()) + " sinks",
                "give each head of queries a sink, or none to all");
  }
}

// Throws where the view of that name has other extents.
template <class T, int Rank>
void check_extents(const char* name, View<T, Rank> view, const typename View<T, Rank>::Extents& expected) {
  if (view.extents() == expected) return;
  const auto text = [](const typename View<T, Rank>::Extents& extents) {
    std::string all = "(";
    for (std::size_t d = 0; d < extents.size(); ++d) {
      all += (d > 0 ? ", " : "") + std::to_string(extents[d]);
    }
    return all + ")";
  };
  throw Error(
      std::string("attention got ") + name + " of " + text(view.extents()) + ", not " + text(expected),
      "give a tensor of this rank's rows and of the heads that the attention was made with");
}

}  // namespace trilith::inline v0::detail
