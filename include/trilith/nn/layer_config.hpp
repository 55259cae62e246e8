// What the code of a layer depends on, and nothing else: two configurations that differ in PP, DP or the
// schedule have the same LayerConfig, so their layers are compiled once.
#pragma once

#include <concepts>
#include <type_traits>

#include <trilith/attention/policy.hpp>
#include <trilith/comm/communicator.hpp>
#include <trilith/core/config.hpp>
#include <trilith/core/precision.hpp>
#include <trilith/device/device.hpp>
#include <trilith/parallel/parallelism.hpp>

namespace trilith::inline v0 {

template <int TP, int CP, class AttentionPolicy, device D, class PrecisionPolicy, communicator C>
struct LayerConfig {
  static_assert(AttentionPolicy::fits(CP) || !std::is_same_v<typename AttentionPolicy::kind, Local>,
                "Attention<Local> keeps the whole sequence on one rank: CP must be 1 in "
                "Parallelism<TP, PP, DP, CP>; write Attention<Ring, Zigzag>, say, to split it");
  static_assert(AttentionPolicy::fits(CP) || std::is_same_v<typename AttentionPolicy::kind, Local>,
                "Attention<Hybrid<U>>: CP must be a multiple of U in Parallelism<TP, PP, DP, CP>");
  static_assert(D::template computes_with<typename PrecisionPolicy::format::element>,
                "Precision<Format>: the layout's device does not compute in this format; Device<Host> takes "
                "Precision<F32>, devices that run kernels take Precision<Bf16> and Precision<F16> too");
  static_assert(std::derived_from<typename D::stream, typename C::stream>,
                "LayerConfig: the communicators of the trainer's world do not work with streams of the "
                "layout's device; ThreadWorld is for devices whose memory this program can touch");

  static constexpr int tensor_ranks = TP;
  static constexpr int context_ranks = CP;
  using attention = AttentionPolicy;
  using device_type = D;
  using precision = PrecisionPolicy;
  using element = typename PrecisionPolicy::format::element;  // of activations, and of weights in use
  using communicator = C;
  using stream = typename D::stream;
  using memory = typename D::memory;
};

// The LayerConfig of a Config whose ranks talk through communicators of type C.
template <class Config, communicator C>
using LayerConfigOf = LayerConfig<Config::template policy<ParallelismCategory>::shape.tensor,
                                  Config::template policy<ParallelismCategory>::shape.context,
                                  typename Config::template policy<AttentionCategory>,
                                  typename Config::template policy<DeviceCategory>::device_type,
                                  typename Config::template policy<PrecisionCategory>, C>;

// A LayerConfig written by hand, for layers without a trainer.
template <int TP, device D, communicator C, class PrecisionPolicy = Precision<F32>>
using Layers = LayerConfig<TP, 1, Attention<Local>, D, PrecisionPolicy, C>;

}  // namespace trilith::inline v0
