// How templates of the imitation's headers give work to a stream; see machine.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace trilith::test::imitation {

// A range of bytes that a piece of work reads or writes.
struct Range {
  const void* data;
  std::size_t bytes;
};

// Gives the stream work that touches these ranges of its GPU's memory. `call` is the name it goes by.
cudaError_t enqueue(const char* call, cudaStream_t stream, std::vector<Range> touched,
                    std::function<void()> work);

struct Launch {
  const void* kernel;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
};

// Gives the stream a launch. `body` runs the whole grid; among the words of its parameters are addresses of
// what it touches.
cudaError_t launch(const Launch& launch, std::vector<std::uintptr_t> words, std::function<void()> body,
                   cudaStream_t stream);
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// Without padding, in which an address of earlier may still lie; none where the compiler cannot clear it.
template <class Parameters>
std::vector<std::uintptr_t> words_of([[maybe_unused]] Parameters params) {
  std::vector<std::uintptr_t> words;
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&params);
  words.resize(sizeof(params) / sizeof(std::uintptr_t));
  if (!words.empty()) std::memcpy(words.data(), &params, words.size() * sizeof(std::uintptr_t));
#endif
  return words;
}

}  // namespace trilith::test::imitation
