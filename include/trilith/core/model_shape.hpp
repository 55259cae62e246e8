// ModelShape<GptShape{.heads = 12, …}> makes the model's shape a constant of the program, so that the
// compiler checks whether the layout can hold it. Without it the shape is a value that a trainer is given.
#pragma once

namespace trilith::inline v0 {

struct RuntimeModelShape;

struct ModelShapeCategory {
  using default_policy = RuntimeModelShape;
};

struct RuntimeModelShape {
  using category = ModelShapeCategory;
};

template <auto Shape>
struct ModelShape {
  using category = ModelShapeCategory;
  static constexpr auto shape = Shape;
};

}  // namespace trilith::inline v0
