// Device<Emulated>: runs kernels on this machine's cores, each access checked, as simt/emulator.hpp says. It
// is for tests of kernels and of what is made of them, in every precision, where there is no GPU: slower than
// a GPU by orders of magnitude. Needs Boost.Context to link (`//bazel/system:boost_context`).
//
// Memory is the host's. A stream belongs to one thread, at which work is done when a call returns.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <trilith/core/half.hpp>
#include <trilith/device/device.hpp>
#include <trilith/device/host.hpp>
#include <trilith/device/kernel_stream.hpp>
#include <trilith/simt/emulator.hpp>

namespace trilith::inline v0 {

struct Emulated {
  class Stream;

  using stream = Stream;
  using memory = Host::Memory;
  using allocation = Host::Allocation;

  static constexpr const char* name = "Emulated";
  template <class Element>
  static constexpr bool computes_with = std::same_as<Element, float> || half<Element>;
};

class Emulated::Stream : public ops::ImmediateStream {
 public:
  // `threads`: for what is no kernel, such as matrix products.
  explicit Stream(simt::Emulation options = {}, int threads = 1)
      : kernels_(std::make_unique<Kernels>(options)), host_(threads) {}

  // The lanes of each rank run in an order of its own, and the copies of a block land at once or late:
  // results must not depend on it.
  explicit Stream(const Place& place)
      : Stream({.seed = static_cast<std::uint64_t>(place.rank), .landing = simt::Landing::either},
               place.threads) {}

  template <class K>
  void launch(const K& kernel, simt::Dim3 grid, const simt::params_of<K>& params) const {
    kernels_->counters += kernels_->emulator.launch(kernel, grid, params);
  }

  // New each time, and NaN.
  void* scratch(std::size_t bytes) const {
    kernels_->scratch = {};
    kernels_->scratch = kernels_->memory.allocate(bytes);
    return kernels_->scratch.data();
  }

  // What all launches have done, since the last call of clear_counters().
  const simt::Counters& counters() const { return kernels_->counters; }
  void clear_counters() const { kernels_->counters = {}; }

  // Where work that is no kernel is done.
  const Host::Stream& host() const { return host_; }

  void synchronize() const {}
  void stamp(std::int64_t* time) const { host_.stamp(time); }

 private:
  struct Kernels {
    explicit Kernels(simt::Emulation options) : emulator(options) {}
    simt::Emulator emulator;
    simt::Counters counters;
    Host::Memory memory{/*poison=*/true};
    Host::Allocation scratch;
  };

  std::unique_ptr<Kernels> kernels_;
  Host::Stream host_;
};

static_assert(device<Emulated> && kernel_stream<Emulated::Stream> && !library_stream<Emulated::Stream>);

}  // namespace trilith::inline v0
