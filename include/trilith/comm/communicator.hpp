// The communicator concept: collectives and messages among the ranks of a group.
//
// Every operation is enqueued: it starts after the work given to `stream` so far, and returns a handle.
// handle.wait(stream) makes later work on the stream start after the operation; a handle must be waited for
// before its buffers are touched or freed, and a handle that is dropped makes the operation fail for all.
// Buffers are contiguous device memory. Ranks are ranks *of the group*, 0 … size() − 1; members()
// gives their ranks in the world. All members call the same collectives in the same order.
//
// Sums are taken in ascending rank, whatever the algorithm, so results repeat bit for bit.
//
// A communicator's `stream` is a base of the streams that it works with, or the one itself.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include <trilith/core/tensor.hpp>

namespace trilith::inline v0 {

enum class Reduction { sum, max };

// One side of a message, as part of an exchange. The k-th send from a to b meets the k-th receive at b
// from a.
struct Message {
  enum class Kind { send, receive };
  Kind kind;
  int peer;  // rank of the group
  void* data;
  std::size_t bytes;

  template <class T>
  static Message send(int peer, Vector<T> data) {
    return {Kind::send, peer, const_cast<void*>(static_cast<const void*>(data.data())),
            static_cast<std::size_t>(data.size()) * sizeof(T)};
  }
  template <class T>
  static Message receive(int peer, Vector<T> data) {
    return {Kind::receive, peer, data.data(), static_cast<std::size_t>(data.size()) * sizeof(T)};
  }
};

template <class C>
concept communicator = std::movable<C> &&
    requires(C& group, typename C::stream& stream, Vector<float> buffer, Vector<const float> input,
             std::span<const Message> messages, int root) {
  { group.rank() } -> std::same_as<int>;
  { group.size() } -> std::same_as<int>;
  group.members();
  // buffer = reduction of all members' buffers
  { group.all_reduce(stream, buffer, Reduction::sum) } -> std::same_as<typename C::handle>;
  // input: size() blocks of buffer.size(); buffer = sum of all members' block rank()
  { group.reduce_scatter(stream, input, buffer) } -> std::same_as<typename C::handle>;
  // buffer: size() blocks of input.size(); block i = member i's input
  { group.all_gather(stream, input, buffer) } -> std::same_as<typename C::handle>;
  // buffer = root's buffer
  { group.broadcast(stream, buffer, root) } -> std::same_as<typename C::handle>;
  // buffer = the input of member rank() − 1 (around the ring)
  { group.ring_shift(stream, input, buffer) } -> std::same_as<typename C::handle>;
  // several sends and receives as one: all are posted before any is waited for
  { group.exchange(stream, messages) } -> std::same_as<typename C::handle>;
  { group.barrier(stream) } -> std::same_as<typename C::handle>;
};

}  // namespace trilith::inline v0
