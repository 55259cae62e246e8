// Parallelism<TP, PP, DP, CP>: how many ranks share each axis, and where in the axes a rank stands.
//
// Order of the axes, fastest first: tensor, context, data, pipeline. Tensor ranks are neighbours because
// they talk most; pipeline ranks are farthest apart because they talk least.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace trilith::inline v0 {

enum class Axis { tensor, context, data, pipeline };

constexpr const char* name_of(Axis axis) {
  constexpr std::array names{"tensor", "context", "data", "pipeline"};
  return names[static_cast<std::size_t>(axis)];
}

// A rank's place on each axis.
struct Coordinate {
  int tensor = 0;
  int context = 0;
  int data = 0;
  int pipeline = 0;
  friend constexpr bool operator==(const Coordinate&, const Coordinate&) = default;
};

inline std::string to_string(const Coordinate& c) {
  return "tensor " + std::to_string(c.tensor) + ", context " + std::to_string(c.context) + ", data " +
         std::to_string(c.data) + ", pipeline " + std::to_string(c.pipeline);
}

// The ranks of each axis, as a value: what the types say, for code that need not be compiled per layout.
struct ParallelShape {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int context = 1;
  friend constexpr bool operator==(const ParallelShape&, const ParallelShape&) = default;

  constexpr int world() const { return tensor * context * data * pipeline; }

  constexpr int along(Axis axis) const {
    switch (axis) {
      case Axis::tensor: return tensor;
      case Axis::context: return context;
      case Axis::data: return data;
      case Axis::pipeline: return pipeline;
    }
    return 1;
  }

  constexpr int rank_of(const Coordinate& c) const {
    return c.tensor + tensor * (c.context + context * (c.data + data * c.pipeline));
  }

  constexpr Coordinate coordinate_of(int rank) const {
    return {.tensor = rank % tensor,
            .context = rank / tensor % context,
            .data = rank / (tensor * context) % data,
            .pipeline = rank / (tensor * context * data)};
  }

  // The ranks that differ from `rank` only along `axis`, itself included, ascending.
  constexpr std::vector<int> group(Axis axis, int rank) const {
    std::vector<int> members;
    for (int i = 0; i < along(axis); ++i) {
      Coordinate c = coordinate_of(rank);
      switch (axis) {
        case Axis::tensor: c.tensor = i; break;
        case Axis::context: c.context = i; break;
        case Axis::data: c.data = i; break;
        case Axis::pipeline: c.pipeline = i; break;
      }
      members.push_back(rank_of(c));
    }
    return members;
  }

  // The ranks over which gradients are summed: those that differ along the data and context axes.
  constexpr std::vector<int> gradient_group(int rank) const {
    std::vector<int> members;
    Coordinate c = coordinate_of(rank);
    for (c.data = 0; c.data < data; ++c.data) {
      for (c.context = 0; c.context < context; ++c.context) members.push_back(rank_of(c));
    }
    return members;
  }

  // The ranks that hold the two uses of a tied embedding, in the pipeline of `rank`: those of the first and
  // of the last stage; one rank where they are the same.
  constexpr std::vector<int> embedding_group(int rank, int first_pipeline, int last_pipeline) const {
    Coordinate c = coordinate_of(rank);
    c.pipeline = first_pipeline;
    std::vector<int> members{rank_of(c)};
    c.pipeline = last_pipeline;
    if (last_pipeline != first_pipeline) members.push_back(rank_of(c));
    return members;
  }
};

template <int TP, int PP, int DP, int CP = 1>
struct Parallelism;

struct ParallelismCategory {
  using default_policy = Parallelism<1, 1, 1>;
};

template <int TP, int PP, int DP, int CP>
struct Parallelism {
  static_assert(TP > 0 && PP > 0 && DP > 0 && CP > 0,
                "Parallelism<TP, PP, DP, CP>: every axis needs at least one rank; write 1 for an axis "
                "that is not split");
  static_assert(1.0 * TP * PP * DP * CP <= 1 << 20,
                "Parallelism<TP, PP, DP, CP>: a world has at most 2^20 ranks, TP * PP * DP * CP of them");
  using category = ParallelismCategory;
  static constexpr ParallelShape shape{.tensor = TP, .pipeline = PP, .data = DP, .context = CP};
};

}  // namespace trilith::inline v0
