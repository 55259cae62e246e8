// Tells AddressSanitizer which stack runs. Without that sanitizer it does nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TRILITH_WITH_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRILITH_WITH_ADDRESS_SANITIZER
#endif
#endif

#if defined(TRILITH_WITH_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace trilith::inline v0::simt {

// A stack, and what the sanitizer keeps of it while it does not run.
struct NotedStack {
  const void* low = nullptr;
  std::size_t bytes = 0;
  void* kept = nullptr;
};

#if defined(TRILITH_WITH_ADDRESS_SANITIZER)
// Memory holds no frames, whatever it held before: before it becomes a stack, and when it is one no more,
// since the system may give it to others.
inline void forget_frames(const void* low, std::size_t bytes) {
  __asan_unpoison_memory_region(low, bytes);
}
inline void note_fresh(NotedStack& stack) {
  stack.kept = nullptr;
  forget_frames(stack.low, stack.bytes);
}
// Before a switch from a stack (nullptr: one that ends) to another, and after it on the other.
inline void note_departure(NotedStack* from, const NotedStack& to) {
  __sanitizer_start_switch_fiber(from != nullptr ? &from->kept : nullptr, to.low, to.bytes);
}
inline void note_arrival(const NotedStack& at, NotedStack& from) {
  __sanitizer_finish_switch_fiber(at.kept, &from.low, &from.bytes);
}
#else
inline void forget_frames(const void*, std::size_t) {}
inline void note_fresh(NotedStack&) {}
inline void note_departure(NotedStack*, const NotedStack&) {}
inline void note_arrival(const NotedStack&, NotedStack&) {}
#endif

}  // namespace trilith::inline v0::simt
