// A timeline as text for a terminal, with or without colour.
//
//     rank 0  F0 F1       B0---    B1---
//     rank 1     F0 B0--- F1 B1---
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

struct TerminalOptions {
  bool colour = false;
  int width = 120;  // columns; a longer timeline goes on below
};

namespace detail {

// Every rank's line, as columns that each have a character and a paint.
class TerminalCanvas {
 public:
  explicit TerminalCanvas(const Timeline& timeline) : timeline_(&timeline) {
    // So wide that every label fits into its block and leaves a blank column.
    for (const Lane& lane : timeline.lanes) {
      for (const Block& block : lane.blocks) {
        const double columns = static_cast<double>(label(timeline, block).size()) + 1;
        scale_ = std::max(scale_, columns / static_cast<double>(block.end - block.start));
      }
    }
    columns_ = column(timeline.makespan);
    for (const Lane& lane : timeline.lanes) {
      rows_.push_back(std::vector<Cell>(columns_));
      for (const Block& block : lane.blocks) draw(rows_.back(), block);
    }
  }

  std::size_t columns() const { return columns_; }

  std::size_t column(Time time) const {
    return static_cast<std::size_t>(std::llround(static_cast<double>(time) * scale_));
  }

  // Columns [from, to) of a rank's line.
  std::string text(int rank, std::size_t from, std::size_t to, bool colour) const {
    std::string line;
    const std::string none;
    const std::string* now = &none;
    for (std::size_t i = from; i < std::min(to, columns_); ++i) {
      const Cell& cell = rows_[rank][i];
      if (colour && cell.paint != *now) {
        line += cell.paint.empty() ? "\033[0m" : cell.paint;
        now = &cell.paint;
      }
      line += cell.character;
    }
    if (!now->empty()) line += "\033[0m";
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  // Where a line that begins at `from` and has `room` columns ends: at the last column in its second half at
  // which no block is cut in two, if there is one.
  std::size_t end_of_line(std::size_t from, std::size_t room) const {
    if (from + room >= columns_) return columns_;
    for (std::size_t to = from + room; to > from + room / 2; --to) {
      const bool whole = std::all_of(rows_.begin(), rows_.end(), [&](const std::vector<Cell>& row) {
        return row[to - 1].character == ' ';
      });
      if (whole) return to;
    }
    return from + room;
  }

 private:
  struct Cell {
    char character = ' ';
    std::string paint = {};
  };

  // The label, then dashes to the end; the last column stays blank. What is fused shares the block's columns.
  void draw(std::vector<Cell>& row, const Block& block) const {
    const std::size_t first = column(block.start);
    const std::size_t count = column(block.end) - first;
    if (count < 2) return;
    std::string text = label(*timeline_, block);
    text.resize(count - 1, '-');
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const std::size_t part = std::min(i * block.actions.size() / (count - 1), block.actions.size() - 1);
      const schedule::Action& action = block.actions[part];
      const Paint p = paint(action.pass);
      row[first + i] = {text[i], "\033[38;5;" + std::to_string(p.terminal_ink) + ";48;5;" +
                                     std::to_string(p.terminal[action.chunk % 2]) + "m"};
    }
  }

  const Timeline* timeline_;
  double scale_ = 0;  // columns per unit of time
  std::size_t columns_ = 0;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace detail

// The timeline, its figures, and what each rank holds at most.
inline std::string terminal(const Timeline& timeline, TerminalOptions options = {}) {
  const detail::TerminalCanvas canvas(timeline);
  const std::string last_rank = std::to_string(timeline.ranks() - 1);
  const auto name = [&](int rank) {
    const std::string number = std::to_string(rank);
    return "rank " + std::string(last_rank.size() - number.size(), ' ') + number + "  ";
  };
  const int room = std::max(20, options.width - static_cast<int>(name(0).size()));

  std::string text = title(timeline) + ": " + figures(timeline) + "\n";
  for (std::size_t from = 0; from < canvas.columns();) {
    const std::size_t to = canvas.end_of_line(from, static_cast<std::size_t>(room));
    text += "\n";
    for (int rank = 0; rank < timeline.ranks(); ++rank) {
      std::string line = name(rank) + canvas.text(rank, from, to, options.colour);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    from = to;
  }

  text += "\n";
  for (const schedule::Pass pass : passes) {
    if (has(timeline, pass)) text += paint(pass).letter + std::string(" ") + paint(pass).words + ", ";
  }
  text += "dashes: it goes on, blank: idle\nin flight at most:";
  for (const Lane& lane : timeline.lanes) text += " " + std::to_string(lane.peak);
  return text + (timeline.chunks == 1 ? " microbatches\n" : " microbatches, counted per chunk\n");
}

}  // namespace trilith::inline v0::trace
