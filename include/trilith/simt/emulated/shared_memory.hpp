// A block's shared memory, with a record of who wrote and read each of its 2-byte cells.
//
// From it follow reads of what was never written, races, and accesses to what a copy is still writing.
// Threads are numbered within their block. Two lanes race when both touch a cell, one of them writes, not
// both are atomic, and neither happened before the other (see Ordering).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <trilith/simt/emulated/ordering.hpp>
#include <trilith/simt/lane.hpp>

namespace trilith::inline v0::simt {

class SharedMemory {
 public:
  struct Conflict {
    enum Kind { none, never_written, being_copied, written, read } kind = none;
    int thread = 0;  // with whom
    explicit operator bool() const { return kind != none; }
  };

  SharedMemory()
      : bytes_(new (std::align_val_t{128}) std::byte[most_shared_bytes]),
        cells_(most_shared_bytes / cell_bytes) {}

  void begin_block() {
    if (order_.nearly_worn_out()) {
      cells_.assign(cells_.size(), Cell{});
      order_.restart();
    }
    order_.begin_block();
  }

  std::byte* data() { return bytes_.get(); }
  Ordering& order() { return order_; }

  Conflict read(int thread, std::size_t offset, int bytes) {
    const int warp = thread / 32;
    const Ordering::Tick now = order_.clock(warp);
    const Cells range = cells(offset, bytes);
    for (Cell* cell = range.begin; cell != range.end; ++cell) {
      if (cell->written_at < order_.start()) return {Conflict::never_written};
      if (cell->copying) return {Conflict::being_copied, cell->writer};
      if (cell->writer != thread && !order_.before(cell->written_at, cell->writer / 32, warp)) {
        return {Conflict::written, cell->writer};
      }
      if (cell->reader != thread || cell->reader_warps != 0) {
        if (unordered_reader(*cell, thread) < 0) {
          cell->reader = static_cast<std::uint16_t>(thread);
          cell->reader_warps = 0;
        } else {
          if (cell->reader_warps == 0) cell->reader_warps = 1u << (cell->reader / 32);
          cell->reader_warps |= 1u << warp;
        }
      }
      cell->read_at = now;
    }
    return {};
  }

  Conflict write(int thread, std::size_t offset, int bytes, bool atomic = false) {
    const Ordering::Tick now = order_.clock(thread / 32);
    const Cells range = cells(offset, bytes);
    for (Cell* cell = range.begin; cell != range.end; ++cell) {
      if (const Conflict conflict = conflict_of_write(*cell, thread, atomic)) return conflict;
      cell->written_at = now;
      cell->writer = static_cast<std::uint16_t>(thread);
      cell->atomic = atomic;
    }
    return {};
  }

  // Between the two, the cells are being copied by `thread`.
  Conflict begin_copy(int thread, std::size_t offset, int bytes) {
    const Conflict conflict = write(thread, offset, bytes);
    if (!conflict) set_copying(thread, offset, bytes, true);
    return conflict;
  }
  void end_copy(int thread, std::size_t offset, int bytes) { set_copying(thread, offset, bytes, false); }

 private:
  static constexpr int cell_bytes = 2;

  struct Cell {
    Ordering::Tick written_at = 0;
    Ordering::Tick read_at = 0;
    // Where several lanes read and none before the other: their warps, and read_at is the latest. 0 for one
    // reader.
    std::uint32_t reader_warps = 0;
    std::uint16_t writer : 14 = 0;
    std::uint16_t copying : 1 = 0;
    std::uint16_t atomic : 1 = 0;
    std::uint16_t reader = 0;
  };

  struct Cells {
    Cell* begin;
    Cell* end;
  };

  Cells cells(std::size_t offset, int bytes) {
    Cell* first = cells_.data() + offset / cell_bytes;
    return {first, cells_.data() + (offset + bytes + cell_bytes - 1) / cell_bytes};
  }

  // A thread whose read did not happen before what `thread` does now, or -1.
  int unordered_reader(const Cell& cell, int thread) const {
    if (cell.read_at < order_.start()) return -1;
    const int warp = thread / 32;
    if (cell.reader_warps == 0) {
      return cell.reader == thread || order_.before(cell.read_at, cell.reader / 32, warp) ? -1 : cell.reader;
    }
    for (std::uint32_t rest = cell.reader_warps; rest != 0; rest &= rest - 1) {
      const int other = std::countr_zero(rest);
      if (!order_.before(cell.read_at, other, warp)) return cell.reader == thread ? other * 32 : cell.reader;
    }
    return -1;
  }

  Conflict conflict_of_write(const Cell& cell, int thread, bool atomic) const {
    if (cell.written_at >= order_.start()) {
      if (cell.copying) return {Conflict::being_copied, cell.writer};
      if (cell.writer != thread && !(atomic && cell.atomic) &&
          !order_.before(cell.written_at, cell.writer / 32, thread / 32)) {
        return {Conflict::written, cell.writer};
      }
    }
    if (atomic && cell.written_at < order_.start()) return {Conflict::never_written};
    const int reader = unordered_reader(cell, thread);
    return reader < 0 ? Conflict{} : Conflict{Conflict::read, reader};
  }

  void set_copying(int thread, std::size_t offset, int bytes, bool copying) {
    const Ordering::Tick now = order_.clock(thread / 32);
    const Cells range = cells(offset, bytes);
    for (Cell* cell = range.begin; cell != range.end; ++cell) {
      cell->copying = copying;
      cell->written_at = now;
    }
  }

  struct Free {
    void operator()(std::byte* bytes) const { operator delete[](bytes, std::align_val_t{128}); }
  };

  std::unique_ptr<std::byte[], Free> bytes_;
  std::vector<Cell> cells_;
  Ordering order_;
};

// What `thread` did wrong, as a sentence without a full stop.
inline std::string describe(const SharedMemory::Conflict& conflict, const std::string& deed) {
  const std::string other = "thread " + std::to_string(conflict.thread);
  switch (conflict.kind) {
    case SharedMemory::Conflict::never_written: return deed + " shared memory that was never written";
    case SharedMemory::Conflict::being_copied:
      return deed + " shared memory that a copy of " + other + " is still writing";
    case SharedMemory::Conflict::written:
      return "a race: " + deed + " shared memory that " + other + " wrote, with no barrier between";
    case SharedMemory::Conflict::read:
      return "a race: " + deed + " shared memory that " + other + " read, with no barrier between";
    case SharedMemory::Conflict::none: break;
  }
  return "";
}

}  // namespace trilith::inline v0::simt
