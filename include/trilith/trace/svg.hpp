// A timeline as one SVG that needs nothing else. Pointing at a block shows it in words, where the viewer does
// that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

#include <trilith/trace/notation.hpp>
#include <trilith/trace/timeline.hpp>

namespace trilith::inline v0::trace {

namespace detail {

// The distance of ticks on a time axis: 1, 2 or 5 times a power of ten, and at least `least`.
inline Time tick(double least) {
  Time step = 1;
  for (int i = 0; static_cast<double>(step) < least; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

class SvgPicture {
 public:
  explicit SvgPicture(const Timeline& timeline) : timeline_(&timeline) {
    for (const Lane& lane : timeline.lanes) {
      for (const Block& block : lane.blocks) {
        for (const schedule::Action& action : block.actions) {
          scale_ = std::max(
              scale_, text_width(label(timeline, action)) / static_cast<double>(block.end - block.start));
        }
      }
    }
    scale_ = std::min(scale_, widest / static_cast<double>(timeline.makespan));
  }

  std::string draw() {
    const int ranks = timeline_->ranks();
    const double right = x(timeline_->makespan);
    const double width = std::max(right + peak_column, least_width);
    const double height = top + ranks * row + 64;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
           number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
           "\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"11\" "
           "fill=\"#101418\">\n";
    out_ += "<title>" + escaped(title(*timeline_)) + "</title>\n<defs>\n";
    for (const schedule::Pass pass : passes) {
      for (int kind = 1; kind <= 3; ++kind) hatch(pass, kind);
    }
    out_ += "</defs>\n";
    rectangle(0, 0, width, height, "fill=\"#ffffff\"");
    text(margin, 20, escaped(title(*timeline_)), "font-size=\"15\" font-weight=\"bold\"");
    text(margin, 38, escaped(figures(*timeline_)));

    axis(top + ranks * row);
    for (int rank = 0; rank < ranks; ++rank) {
      const double y = top + rank * row;
      const Lane& lane = timeline_->lanes[rank];
      text(margin - 8, y + 19, "rank " + std::to_string(rank), "text-anchor=\"end\"");
      rectangle(x(0), y + 2, right - x(0), row - 4, "fill=\"none\" stroke=\"#c8cdd2\" stroke-width=\"0.6\"");
      for (const Block& block : lane.blocks) draw(rank, block, y + 2);
      text(right + 8, y + 19, "peak " + std::to_string(lane.peak));
    }
    legend(top + ranks * row + 46);
    return out_ + "</svg>\n";
  }

 private:
  static constexpr double margin = 70, top = 52, row = 30, peak_column = 76, least_width = 760;
  static constexpr double widest =
      30000;  // of the timeline; labels that do not fit then are cut to their number, or left out

  static double text_width(const std::string& text) { return 6.7 * static_cast<double>(text.size()) + 6; }
  double x(Time time) const { return margin + scale_ * static_cast<double>(time); }

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
  }

  void rectangle(double left, double up, double width, double height, const std::string& attributes) {
    out_ += "<rect x=\"" + number(left) + "\" y=\"" + number(up) + "\" width=\"" + number(width) +
            "\" height=\"" + number(height) + "\" " + attributes + "/>\n";
  }

  void text(double left, double base, const std::string& content, const std::string& attributes = "") {
    out_ += "<text x=\"" + number(left) + "\" y=\"" + number(base) + "\"" + (attributes.empty() ? "" : " ") +
            attributes + ">" + content + "</text>\n";
  }

  // Chunks but the first are hatched in the colour of the text: the second rising, the third falling, the
  // fourth both, and so on again.
  static int hatch_of(int chunk) { return chunk % 4; }

  static std::string hatch_name(schedule::Pass pass, int kind) {
    return std::string("hatch") + paint(pass).letter + std::to_string(kind);
  }

  void hatch(schedule::Pass pass, int kind) {
    out_ += "<pattern id=\"" + hatch_name(pass, kind) +
            "\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\"><path d=\"";
    if (kind & 1) out_ += "M-1,1 L1,-1 M0,7 L7,0 M6,8 L8,6";
    if (kind == 3) out_ += " ";
    if (kind & 2) out_ += "M6,-1 L8,1 M0,0 L7,7 M-1,6 L1,8";
    out_ += "\" stroke=\"" + std::string(paint(pass).ink) +
            "\" stroke-opacity=\"0.3\" stroke-width=\"1.4\" fill=\"none\"/></pattern>\n";
  }

  // What is fused lies one above the other.
  void draw(int rank, const Block& block, double y) {
    out_ += "<g class=\"block\"><title>" + escaped(describe(*timeline_, rank, block)) + "</title>\n";
    const double width = x(block.end) - x(block.start);
    const double height = (row - 4) / static_cast<double>(block.actions.size());
    for (std::size_t i = 0; i < block.actions.size(); ++i) {
      const schedule::Action& action = block.actions[i];
      swatch(action.pass, action.chunk, x(block.start), y + height * static_cast<double>(i), width, height);
      std::string name = label(*timeline_, action);
      if (text_width(name) > width + 0.5) name = std::to_string(action.microbatch);
      if (text_width(name) > width + 0.5) continue;
      text(x(block.start) + width / 2, y + height * (static_cast<double>(i) + 0.5) + 4, name,
           "text-anchor=\"middle\" fill=\"" + std::string(paint(action.pass).ink) + "\"" +
               (hatch_of(action.chunk) != 0 ? halo(action.pass) : ""));
    }
    if (block.actions.size() > 1) {
      rectangle(x(block.start), y, width, row - 4, "fill=\"none\" stroke=\"#101418\" stroke-width=\"1.4\"");
    }
    out_ += "</g>\n";
  }

  // Keeps hatching away from the letters.
  static std::string halo(schedule::Pass pass) {
    return " stroke=\"" + std::string(paint(pass).fill) +
           "\" stroke-width=\"3.5\" stroke-linejoin=\"round\" paint-order=\"stroke\"";
  }

  void swatch(schedule::Pass pass, int chunk, double left, double up, double width, double height) {
    rectangle(left, up, width, height,
              "fill=\"" + std::string(paint(pass).fill) + "\" stroke=\"#ffffff\" stroke-width=\"1\"");
    if (hatch_of(chunk) == 0) return;
    rectangle(left, up, width, height, "fill=\"url(#" + hatch_name(pass, hatch_of(chunk)) + ")\"");
  }

  void axis(double y) {
    const Time step = tick(60 / scale_);
    for (Time time = 0; time <= timeline_->makespan; time += step) {
      rectangle(x(time) - 0.4, top, 0.8, y - top + 4, "fill=\"#e3e6e9\"");
      text(x(time), y + 16, std::to_string(time), "text-anchor=\"middle\" fill=\"#4a5258\"");
    }
  }

  void legend(double y) {
    double left = margin;
    const auto entry = [&](schedule::Pass pass, int chunk, const std::string& words) {
      swatch(pass, chunk, left, y - 11, 22, 14);
      text(left + 27, y, words);
      left += 27 + text_width(words) + 10;
    };
    for (const schedule::Pass pass : passes) {
      if (has(*timeline_, pass)) entry(pass, 0, std::string(1, paint(pass).letter) + " " + paint(pass).words);
    }
    for (int chunk = 1; chunk < timeline_->chunks; ++chunk) {
      entry(schedule::Pass::forward, chunk, "chunk " + chunk_letter(*timeline_, chunk));
    }
  }

  const Timeline* timeline_;
  double scale_ = 0;  // pixels per unit of time
  std::string out_;
};

}  // namespace detail

inline std::string svg(const Timeline& timeline) {
  return detail::SvgPicture(timeline).draw();
}

}  // namespace trilith::inline v0::trace
