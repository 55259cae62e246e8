// The memory of the imitation's GPUs, and pinned memory of the host: blocks of this program's own, each with
// what may be done with it now.
//
// New memory and memory that is given back hold 0xFF, which is NaN in every precision. What was given back is
// kept for a while and not given out again, so that use of it shows: reads give NaN, accesses that are
// checked are refused, and of writes it is told later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>

struct CUmemPoolHandle_st {
  int device;
  std::set<int> readers = {};  // other GPUs that may read and write it
};

namespace trilith::test::imitation {

class MemoryMap {
 public:
  static constexpr int host = -1;

  // A block that is good from begin() on. It belongs to a GPU, and to a pool of it or to none, or to `host`.
  void* give(std::size_t bytes, int device, const CUmemPoolHandle_st* pool = nullptr) {
    void* const data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data == nullptr) throw std::bad_alloc();
    Block block{bytes, device, {}, State::promised, false, Memory(data)};
    if (pool != nullptr) block.readers = pool->readers;
    blocks_.emplace(address(data), std::move(block));
    used_[device] += bytes;
    return data;
  }

  // In the order of a stream's work: from now on it is there, and from now on it is not.
  void begin(void* data) {
    Block& block = blocks_.at(address(data));
    block.state = State::there;
    std::memset(data, 0xFF, block.bytes);
  }
  void end(void* data) {
    Block& block = blocks_.at(address(data));
    block.state = State::gone;
    used_[block.device] -= block.bytes;
    std::memset(data, 0xFF, block.bytes);
    gone_.push_back(address(data));
    gone_bytes_ += block.bytes;
    while (gone_bytes_ > most_gone) {
      gone_bytes_ -= blocks_.at(gone_.front()).bytes;
      look_at(gone_.front());
      blocks_.erase(gone_.front());
      gone_.pop_front();
    }
  }

  // Whether it may be given back; it may be so once.
  bool close(void* data, bool of_host) {
    const auto place = blocks_.find(address(data));
    if (place == blocks_.end() || place->second.closed || (place->second.device == host) != of_host) {
      return false;
    }
    return place->second.closed = true;
  }
  int open_blocks(bool of_host) const {
    return static_cast<int>(std::count_if(blocks_.begin(), blocks_.end(), [&](const auto& each) {
      return !each.second.closed && (each.second.device == host) == of_host;
    }));
  }
  std::size_t used(int device) const {
    const auto place = used_.find(device);
    return place == used_.end() ? 0 : place->second;
  }

  // Where an address lies, whatever may be done with it now: a block of a GPU, pinned memory, or other
  // memory.
  enum class Kind { of_gpu, pinned, other };
  Kind kind(const void* data) const {
    const Block* const block = block_at(address(data));
    if (block == nullptr) return Kind::other;
    return block->device == host ? Kind::pinned : Kind::of_gpu;
  }

  // What is wrong about an access of the GPU to these bytes, or nothing.
  std::string objection(std::uintptr_t data, std::size_t bytes, int device) const {
    if (bytes == 0) return "";
    const Block* const block = block_at(data);
    if (block == nullptr) return "memory that is no GPU's";
    if (block->state == State::promised) return "memory whose allocation is still in its stream's queue";
    if (block->state == State::gone) return "memory that was given back";
    if (bytes > block->bytes - (data - start_of(data))) return "memory beyond the end of an allocation";
    if (block->device != host && block->device != device && !block->readers.contains(device)) {
      return "memory of GPU " + std::to_string(block->device) + ", which GPU " + std::to_string(device) +
             " was not given access to";
    }
    return "";
  }
  std::string objection(const void* data, std::size_t bytes, int device) const {
    return objection(address(data), bytes, device);
  }
  // The same of a word that may be an address, or may be anything else.
  std::string objection_to_word(std::uintptr_t word, int device) const {
    return block_at(word) == nullptr ? "" : objection(word, 1, device);
  }

  // Whether someone has written to memory after it was given back.
  bool disturbed() {
    for (const std::uintptr_t each : gone_) look_at(each);
    return disturbed_;
  }

 private:
  static constexpr std::size_t alignment = 256;
  static constexpr std::size_t most_gone = std::size_t{256} << 20;

  enum class State { promised, there, gone };
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  using Memory = std::unique_ptr<void, Free>;
  struct Block {
    std::size_t bytes;
    int device;
    std::set<int> readers;
    State state;
    bool closed;
    Memory memory;
  };

  static std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

  std::map<std::uintptr_t, Block>::const_iterator place_of(std::uintptr_t data) const {
    auto place = blocks_.upper_bound(data);
    if (place == blocks_.begin()) return blocks_.end();
    --place;
    return data - place->first < place->second.bytes ? place : blocks_.end();
  }
  const Block* block_at(std::uintptr_t data) const {
    const auto place = place_of(data);
    return place == blocks_.end() ? nullptr : &place->second;
  }
  std::uintptr_t start_of(std::uintptr_t data) const { return place_of(data)->first; }

  void look_at(std::uintptr_t data) {
    const Block& block = blocks_.at(data);
    const auto* const bytes = static_cast<const unsigned char*>(block.memory.get());
    disturbed_ = disturbed_ || bytes[0] != 0xFF || std::memcmp(bytes, bytes + 1, block.bytes - 1) != 0;
  }

  std::map<std::uintptr_t, Block> blocks_;
  std::map<int, std::size_t> used_;
  std::deque<std::uintptr_t> gone_;
  std::size_t gone_bytes_ = 0;
  bool disturbed_ = false;
};

}  // namespace trilith::test::imitation
