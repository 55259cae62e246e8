// Config: the order of policies means nothing, what is left out has a default, and users may add categories.
#include <type_traits>

#include <gtest/gtest.h>

#include <trilith/attention/policy.hpp>
#include <trilith/core/config.hpp>
#include <trilith/core/model_shape.hpp>
#include <trilith/core/precision.hpp>
#include <trilith/device/host.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith {
namespace {

// A category of a user, with a policy for the type of its number.
template <int N>
struct Colour;
struct ColourCategory {
  using default_policy = Colour<0>;
};
template <int N>
struct Colour {
  using category = ColourCategory;
  static constexpr int number = N;
};

template <class Layout, class Category, class Expected>
constexpr bool chooses = std::is_same_v<typename Layout::template policy<Category>, Expected>;

template <class Layout>
constexpr bool is_the_layout() {
  return chooses<Layout, ParallelismCategory, Parallelism<2, 3, 4>> &&
         chooses<Layout, ScheduleCategory, Schedule<GPipe>> && chooses<Layout, ColourCategory, Colour<7>> &&
         chooses<Layout, DeviceCategory, Device<Host>>;
}

TEST(Config, OrderDoesNotMatter) {
  using P = Parallelism<2, 3, 4>;
  using S = Schedule<GPipe>;
  using C = Colour<7>;
  static_assert(is_the_layout<Config<P, S, C>>());
  static_assert(is_the_layout<Config<P, C, S>>());
  static_assert(is_the_layout<Config<S, P, C>>());
  static_assert(is_the_layout<Config<S, C, P>>());
  static_assert(is_the_layout<Config<C, P, S>>());
  static_assert(is_the_layout<Config<C, S, P>>());
}

TEST(Config, WhatIsLeftOutHasADefault) {
  using Nothing = Config<>;
  static_assert(chooses<Nothing, ParallelismCategory, Parallelism<1, 1, 1>>);
  static_assert(chooses<Nothing, ScheduleCategory, Schedule<OneFOneB>>);
  static_assert(chooses<Nothing, AttentionCategory, Attention<Local>>);
  static_assert(chooses<Nothing, DeviceCategory, Device<Host>>);
  static_assert(chooses<Nothing, PrecisionCategory, Precision<F32>>);
  static_assert(chooses<Nothing, ModelShapeCategory, RuntimeModelShape>);
  static_assert(chooses<Nothing, ColourCategory, Colour<0>>);
}

TEST(Config, TakesACategoryItDoesNotKnow) {
  static_assert(policy<Colour<7>>);
  static_assert(Config<Schedule<GPipe>, Colour<7>>::policy<ColourCategory>::number == 7);
}

TEST(Config, TellsPoliciesFromOtherTypes) {
  struct NoDefault {
    using category = NoDefault;
  };
  static_assert(policy<Schedule<GPipe>>);
  static_assert(!policy<int>);
  static_assert(!policy<GPipe>);
  static_assert(!policy<NoDefault>);
}

TEST(Config, IsRecognised) {
  static_assert(is_config<Config<>>);
  static_assert(is_config<Config<Colour<7>, Device<Host>>>);
  static_assert(!is_config<int>);
  static_assert(!is_config<Colour<7>>);
}

TEST(Config, ContextParallelismIsOffWhereNotAskedFor) {
  static_assert(std::is_same_v<Parallelism<2, 3, 4>, Parallelism<2, 3, 4, 1>>);
  constexpr ParallelShape shape = Config<Parallelism<2, 3, 4>>::policy<ParallelismCategory>::shape;
  static_assert(shape == ParallelShape{.tensor = 2, .pipeline = 3, .data = 4, .context = 1});
}

}  // namespace
}  // namespace trilith
