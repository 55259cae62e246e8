// What a layer's code depends on, and what it does not: a new layout must not compile the layers again.
#include <type_traits>

#include <gtest/gtest.h>

#include <trilith/comm/thread_communicator.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/layer_config.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith {
namespace {

template <class... Policies>
using LayersOf = LayerConfigOf<Config<Policies...>, ThreadCommunicator>;

TEST(LayerConfig, IsTheSameForEveryPipelineDataAndSchedule) {
  using Base = LayersOf<Parallelism<2, 1, 1>>;
  static_assert(std::is_same_v<LayersOf<Parallelism<2, 4, 1>>, Base>);
  static_assert(std::is_same_v<LayersOf<Parallelism<2, 1, 4>>, Base>);
  static_assert(std::is_same_v<LayersOf<Parallelism<2, 4, 2>, Schedule<GPipe>>, Base>);
  static_assert(std::is_same_v<LayersOf<Schedule<GPipe>, Device<Host>, Parallelism<2, 1, 1>>, Base>);
}

TEST(LayerConfig, DiffersByTensorRanks) {
  static_assert(!std::is_same_v<LayersOf<Parallelism<2, 1, 1>>, LayersOf<Parallelism<1, 1, 1>>>);
  static_assert(LayersOf<Parallelism<2, 4, 3>>::tensor_ranks == 2);
  static_assert(LayersOf<>::tensor_ranks == 1);
}

TEST(LayerConfig, WrittenByHandIsThatOfTheDefaults) {
  static_assert(std::is_same_v<Layers<2, Host, ThreadCommunicator>, LayersOf<Parallelism<2, 1, 1>>>);
}

}  // namespace
}  // namespace trilith
