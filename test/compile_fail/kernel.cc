// Does not compile: each case launches what is no kernel, or one that asks for what no block has.
#include <trilith/core/device_code.hpp>
#include <trilith/device/emulated.hpp>
#include <trilith/simt/emulator.hpp>
#include <trilith/simt/lane.hpp>
#include <trilith/simt/memory.hpp>

#ifdef ON_A_STREAM_WITHOUT_NAME
#define WITHOUT_NAME
#endif

namespace trilith {

struct Mine {
#ifndef WITHOUT_NAME
  static constexpr const char* name = "mine";
#endif
#if defined(THREADS_OF_NO_WHOLE_WARP)
  static constexpr int threads = 48;
#elif !defined(WITHOUT_THREADS)
  static constexpr int threads = 32;
#endif
#if defined(MORE_SHARED_MEMORY_THAN_A_BLOCK_HAS)
  static constexpr int shared_bytes = 228 << 10;
#elif !defined(WITHOUT_SHARED_BYTES)
  static constexpr int shared_bytes = 0;
#endif
#ifdef WITHOUT_PARAMS
  struct Arguments {
#else
  struct Params {
#endif
    simt::Global<float> x;
  };

  template <simt::lane Lane, class P>
  TRILITH_DEVICE void operator()(Lane& lane, const P& p) const {
    lane.store(p.x, lane.thread(), 1.0f);
  }
};

#ifdef ON_A_STREAM_WITHOUT_NAME
using Executor = const Emulated::Stream;
#else
using Executor = simt::Emulator;
#endif

void launch(Executor& executor, simt::Global<float> x) {
  executor.launch(Mine{}, {.x = 1}, {.x = x});
}

}  // namespace trilith
