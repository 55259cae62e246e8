// A second stream of a rank, for work that may run beside that of the stream that its layers compute on:
//
//     auto work = side.fork(s);    // starts after the work given to s so far
//     operation(work.stream(), …);
//     other_operation(s, …);       // runs beside it
//     work.join();                 // later work of s starts after it
//
// A device whose calls return when their work is done has nothing to run beside: there the side stream is s
// itself, and neither call is anything.
#pragma once

#include <concepts>
#include <utility>

#include <trilith/device/device.hpp>

namespace trilith::inline v0 {

// A stream whose work goes on when a call has returned, so that several of a rank run side by side.
// s.branch() is another one of the same place; where both could go on, it goes first. s.wait(other) makes
// later work of s start after the work given to `other` so far.
template <class S>
concept branching_stream = std::derived_from<S, ops::Stream> && requires(const S& s, const S& other) {
  { s.branch() } -> std::same_as<S>;
  s.wait(other);
};

template <std::derived_from<ops::Stream> S>
class SideStream;

// What has been forked off a stream, which must outlive it, as must the SideStream. Where an error ends it
// before join(), later work of the stream starts after it all the same: so what it touches may be used again
// by whoever catches the error.
template <class S>
class [[nodiscard]] SideWork {
 public:
  SideWork(SideWork&& other) noexcept
      : forked_(std::exchange(other.forked_, nullptr)), side_(std::exchange(other.side_, nullptr)) {}
  SideWork& operator=(SideWork&&) = delete;
  ~SideWork() {
    try {
      join();
    } catch (...) {  // a stream that can't be waited for is broken, which its next call says
    }
  }

  // On which it is enqueued.
  const S& stream() const { return *side_; }

  // Once; later calls do nothing.
  void join() {
    const S* const forked = std::exchange(forked_, nullptr);
    if constexpr (branching_stream<S>) {
      if (forked != nullptr) forked->wait(*side_);
    }
  }

 private:
  friend class SideStream<S>;

  SideWork(const S& forked, const S& side) : forked_(&forked), side_(&side) {}

  const S* forked_;  // null where nothing is left to join
  const S* side_;
};

template <std::derived_from<ops::Stream> S>
class SideStream {
 public:
  static_assert(std::derived_from<S, ops::ImmediateStream>,
                "SideStream: a stream whose work goes on when a call has returned must have branch() and "
                "wait(other), as device/side_stream.hpp says");

  explicit SideStream(const S& /*s*/) {}

  SideWork<S> fork(const S& s) const { return SideWork<S>(s, s); }
};

template <branching_stream S>
class SideStream<S> {
 public:
  // At the place of s.
  explicit SideStream(const S& s) : side_(s.branch()) {}

  // What is forked off one after the other runs in that order.
  SideWork<S> fork(const S& s) const {
    side_.wait(s);
    return SideWork<S>(s, side_);
  }

 private:
  S side_;
};

}  // namespace trilith::inline v0
