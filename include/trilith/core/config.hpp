// Config composes policies in any order, each category at most once, the rest by default.
//
// A policy is a type with a member `category`. A category is a type with a `default_policy`; it lives in
// the header that owns its policies, so this one knows none of them:
//
//     using Layout = Config<Parallelism<2, 2, 2>, Schedule<OneFOneB>>;
//     Layout::policy<DeviceCategory>        // Device<Host>, the default
//
// All checks of a configuration happen here, at the front door; inner code does not repeat them.
#pragma once

#include <type_traits>

namespace trilith::inline v0 {

template <class T>
concept policy = requires {
  typename T::category;
  typename T::category::default_policy;
};

namespace detail {

template <class T>
struct CategoryOf {
  using type = void;
};
template <policy T>
struct CategoryOf<T> {
  using type = typename T::category;
};

template <class Category, class... Policies>
inline constexpr int times_given = (0 + ... + std::is_same_v<Category, typename CategoryOf<Policies>::type>);

// The policy of a category: the one given, or the default.
template <class Category, class... Policies>
struct Find {
  using type = typename Category::default_policy;
};
template <class Category, class First, class... Rest>
struct Find<Category, First, Rest...> {
  using type = typename std::conditional_t<std::is_same_v<Category, typename CategoryOf<First>::type>,
                                           std::type_identity<First>, Find<Category, Rest...>>::type;
};

}  // namespace detail

template <class... Policies>
struct Config {
  static_assert((policy<Policies> && ...),
                "Config: every argument must be a policy, such as Parallelism<TP, PP, DP>, "
                "Schedule<OneFOneB> or Device<Host>");
  static_assert(((!policy<Policies> ||
                  detail::times_given<typename detail::CategoryOf<Policies>::type, Policies...> == 1) &&
                 ...),
                "Config: a category of policy was given twice; give each of Parallelism, Schedule, "
                "Microbatches, Attention, Device, Precision and ModelShape at most once");

  template <class Category>
  using policy = typename detail::Find<Category, Policies...>::type;
};

template <class T>
inline constexpr bool is_config = false;
template <class... Policies>
inline constexpr bool is_config<Config<Policies...>> = true;

}  // namespace trilith::inline v0
