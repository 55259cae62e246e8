// Attention<Local>: which ranks' keys a query meets, and how. Local: those of its own rank.
#pragma once

#include <type_traits>

namespace trilith::inline v0 {

struct Local {};

template <class Kind>
struct Attention;

struct AttentionCategory {
  using default_policy = Attention<Local>;
};

template <class Kind>
struct Attention {
  static_assert(std::is_same_v<Kind, Local>, "Attention<K>: write Attention<Local>");
  using category = AttentionCategory;
  using kind = Kind;
};

}  // namespace trilith::inline v0
