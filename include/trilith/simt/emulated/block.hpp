// A block under way: its lanes' whereabouts, its barriers and its collectives, and what is said when
// something is wrong.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <trilith/core/error.hpp>
#include <trilith/simt/emulated/fibers.hpp>
#include <trilith/simt/emulated/place.hpp>
#include <trilith/simt/emulated/shared_memory.hpp>
#include <trilith/simt/emulated/traffic.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

// When the bytes of an asynchronous copy arrive: when it is issued, or when they are waited for; or either,
// chosen for each block at random. A kernel must not care.
enum class Landing { at_once, late, either };

// What a launch is, the same for all its blocks.
struct LaunchShape {
  const char* kernel;
  Dim3 grid;
  int threads;
  int shared_bytes;
};

enum class Collective { shuffle, vote, mma, ldmatrix, warp_barrier };

class Block {
 public:
  Block(const LaunchShape& shape, Fibers& fibers, SharedMemory& shared, Counters& counters)
      : shape_(shape),
        fibers_(fibers),
        shared_(shared),
        counters_(counters),
        lanes_(shape.threads),
        warps_(shape.threads / warp_size, Warp(counters)) {}

  const LaunchShape& shape() const { return shape_; }
  Dim3 index() const { return index_; }
  bool copies_land_late() const { return copies_land_late_; }
  SharedMemory& shared() { return shared_; }
  Counters& counters() { return counters_; }
  Traffic& traffic(int thread) { return warps_[thread / warp_size].traffic; }

  // Runs body(thread) for all threads of block `index`, whose copies land late or at once.
  template <class Body>
  void run(Dim3 index, bool copies_land_late, const Body& body) {
    index_ = index;
    copies_land_late_ = copies_land_late;
    shared_.begin_block();
    barriers_ = {};
    for (Lane& lane : lanes_) lane = {};
    for (Warp& warp : warps_) warp.arrived = 0;
    fibers_.run(
        shape_.threads,
        [this, &body](int thread) {
          body(thread);
          lanes_[thread].state = State::ended;
        },
        [this] { report_stuck(); });
    for (Warp& warp : warps_) warp.traffic.count();
  }

  // All `threads` that come to barrier `id` go on once they are there.
  void barrier(int thread, int id, int threads, const Place& at) {
    if (id < 0 || id > 15 || threads < warp_size || threads > shape_.threads || threads % warp_size != 0) {
      fail(thread, at, "barrier " + std::to_string(id) + " for " + std::to_string(threads) + " threads",
           "ids go from 0 to 15; the threads are whole warps of the block");
    }
    Barrier& barrier = barriers_[id];
    if (barrier.arrived == 0) {
      barrier.expected = threads;
    } else if (barrier.expected != threads) {
      fail(thread, at,
           name_of(id) + " is met for " + std::to_string(threads) + " threads, but others wait in it for " +
               std::to_string(barrier.expected),
           "all must name the same number");
    }
    barrier.warps |= 1u << (thread / warp_size);
    lanes_[thread] = {State::in_barrier, id, at};
    if (++barrier.arrived < barrier.expected) {
      fibers_.wait();
      return;
    }
    if (std::popcount(barrier.warps) * warp_size != threads) {
      fail(thread, at, name_of(id) + " is met by parts of warps",
           "all lanes of a warp must come to the same barrier");
    }
    if (threads == shape_.threads) {
      shared_.order().meet_all();
    } else {
      shared_.order().meet(barrier.warps);
    }
    const std::uint32_t warps = barrier.warps;
    barrier = {};
    for (std::uint32_t rest = warps; rest != 0; rest &= rest - 1) {
      const int warp = std::countr_zero(rest);
      warps_[warp].traffic.count();
      for (int other = warp * warp_size; other < (warp + 1) * warp_size; ++other) release(other, thread);
    }
  }

  // Once all lanes of the warp are here, the last calls finish(operands), which has a pointer for each lane.
  template <class Operand, class Finish>
  void collect(int thread, Collective kind, const Place& at, Operand& mine, const Finish& finish) {
    Warp& warp = warps_[thread / warp_size];
    if (warp.arrived == 0) {
      warp.kind = kind;
      warp.at = at;
    } else if (warp.kind != kind || warp.at != at) {
      fail(thread, at,
           std::string(name_of(kind)) + " while other lanes of the warp wait in " + name_of(warp.kind) +
               " at " + to_string(warp.at),
           "all lanes of a warp must reach a collective together, on one line");
    }
    warp.operands[thread % warp_size] = &mine;
    lanes_[thread] = {State::in_collective, 0, at};
    if (++warp.arrived < warp_size) {
      fibers_.wait();
      return;
    }
    warp.arrived = 0;
    warp.traffic.count();
    std::array<Operand*, warp_size> operands;
    for (int i = 0; i < warp_size; ++i) operands[i] = static_cast<Operand*>(warp.operands[i]);
    finish(operands.data());
    const int first = thread / warp_size * warp_size;
    for (int other = first; other < first + warp_size; ++other) release(other, thread);
  }

  [[noreturn]] void fail(int thread, const Place& at, const std::string& problem,
                         const std::string& remedy) const {
    throw Error(problem, remedy,
                std::string("kernel ") + shape_.kernel + ", block (" + std::to_string(index_.x) + ", " +
                    std::to_string(index_.y) + ", " + std::to_string(index_.z) + "), " +
                    name_of_thread(thread) + ", " + to_string(at));
  }

 private:
  enum class State { running, in_barrier, in_collective, ended };

  struct Lane {
    State state = State::running;
    int barrier = 0;
    Place at;
  };

  struct Barrier {
    int expected = 0;
    int arrived = 0;
    std::uint32_t warps = 0;
  };

  struct Warp {
    explicit Warp(Counters& counters) : traffic(counters) {}

    int arrived = 0;
    Collective kind{};
    Place at;
    std::array<void*, warp_size> operands{};
    Traffic traffic;
  };

  void release(int other, int thread) {
    lanes_[other].state = State::running;
    if (other != thread) fibers_.wake(other);
  }

  // Nobody can go on. Says who waits in vain, for whom.
  void report_stuck() const {
    const int threads = shape_.threads;
    for (int thread = 0; thread < threads; ++thread) {
      if (lanes_[thread].state != State::in_collective) continue;
      const int first = thread / warp_size * warp_size;
      for (int other = first; other < first + warp_size; ++other) {
        if (lanes_[other].state == State::in_collective) continue;
        fail(thread, lanes_[thread].at,
             std::string(name_of(warps_[thread / warp_size].kind)) +
                 " with inactive lanes: " + name_of_thread(other) + whereabouts(other),
             "all lanes of a warp must reach a collective together");
      }
    }
    for (int thread = 0; thread < threads; ++thread) {
      if (lanes_[thread].state != State::in_barrier) continue;
      const Barrier& barrier = barriers_[lanes_[thread].barrier];
      const std::string waits = name_of(lanes_[thread].barrier) + " has been reached by " +
                                std::to_string(barrier.arrived) + " of " + std::to_string(barrier.expected) +
                                " threads; ";
      for (int other = 0; other < threads; ++other) {
        if (lanes_[other].state == State::in_barrier && lanes_[other].barrier != lanes_[thread].barrier) {
          fail(thread, lanes_[thread].at, "deadlock: " + waits + name_of_thread(other) + whereabouts(other),
               "let all threads meet barriers in the same order");
        }
      }
      for (int other = 0; other < threads; ++other) {
        if (lanes_[other].state == State::ended) {
          fail(thread, lanes_[thread].at,
               "a barrier that not all lanes reach: " + waits + name_of_thread(other) + whereabouts(other),
               "move it out of the branch, or let all lanes take part");
        }
      }
      fail(thread, lanes_[thread].at, "deadlock: " + waits + "no other is left",
           "name the number of threads that come");
    }
  }

  std::string whereabouts(int thread) const {
    const Lane& lane = lanes_[thread];
    switch (lane.state) {
      case State::ended: return " has returned";
      case State::in_barrier: return " waits in " + name_of(lane.barrier) + " at " + to_string(lane.at);
      case State::in_collective: return " waits in a collective at " + to_string(lane.at);
      case State::running: break;
    }
    return " runs";
  }

  static std::string name_of(int barrier) { return "barrier " + std::to_string(barrier); }

  static std::string name_of_thread(int thread) {
    return "thread " + std::to_string(thread) + " (warp " + std::to_string(thread / warp_size) + ", lane " +
           std::to_string(thread % warp_size) + ")";
  }

  static const char* name_of(Collective kind) {
    switch (kind) {
      case Collective::shuffle: return "a shuffle";
      case Collective::vote: return "a vote";
      case Collective::mma: return "mma";
      case Collective::ldmatrix: return "ldmatrix";
      case Collective::warp_barrier: return "sync_warp";
    }
    return "";
  }

  const LaunchShape shape_;
  Fibers& fibers_;
  SharedMemory& shared_;
  Counters& counters_;
  Dim3 index_;
  bool copies_land_late_ = false;
  std::array<Barrier, 16> barriers_{};
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
};

}  // namespace trilith::inline v0::simt
