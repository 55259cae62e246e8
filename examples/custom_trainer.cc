// A model and a training loop of one's own, out of the library's layers: a perceptron learns y = sin(3u) · v,
// its hidden units split over two tensor ranks, its examples over two data ranks.

#include <array>
#include <cmath>
#include <cstdio>

#include <trilith/trilith.hpp>

using namespace trilith;

constexpr ParallelShape layout = Parallelism<2, 1, 2>::shape;
using L = Layers<2, Host, ThreadCommunicator>;  // TP = 2: what the layers' code depends on
constexpr Index rows = 256, inputs = 2, hidden = 64;

struct Perceptron {
  Perceptron(Parameters<Host>& parameters, ThreadCommunicator& tensor_group)
      : up(parameters, "up", {.in = inputs, .out = hidden, .deviation = 0.7f}, tensor_group),
        down(parameters, "down", {.in = hidden, .out = 1, .deviation = 0.1f}, tensor_group) {}
  ColumnParallelLinear<L> up;
  RowParallelLinear<L> down;
};

void train(ThreadRank& rank) {
  const Host::Stream stream;
  Host::Memory memory;
  const Coordinate place = layout.coordinate_of(rank.rank());
  auto tensor_group = rank.group("tensor", layout.group(Axis::tensor, rank.rank()));
  auto data_group = rank.group("data", layout.group(Axis::data, rank.rank()));

  Parameters<Host> parameters(place.tensor);
  const Perceptron model(parameters, tensor_group);
  parameters.allocate(memory);
  parameters.initialize(stream, /*seed=*/1);
  AdamWOptimizer<Host> optimizer(stream, parameters, memory);

  const auto [allocation, views] = allocate_planned<Host>(memory, [](Arena& arena) {
    constexpr Index local = hidden / layout.tensor;
    return std::array{arena.take<float>(rows, inputs), arena.take<float>(rows, local),
                      arena.take<float>(rows, local),  arena.take<float>(rows, local),
                      arena.take<float>(rows, 1),      arena.take<float>(rows, 1)};
  });
  const auto& [x, sum, activated, d_sum, y, dy] = views;

  for (int step = 1; step <= 1000; ++step) {
    const Philox random(/*seed=*/2, /*stream=*/step * layout.data + place.data);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < inputs; ++j) x(i, j) = 2 * random.uniform(i * inputs + j) - 1;
    }

    model.up.forward(stream, x, sum);
    ops::gelu(stream, sum, activated);
    model.down.forward(stream, activated, y);

    double loss = 0;
    for (Index i = 0; i < rows; ++i) {
      const float error = y(i, 0) - std::sin(3 * x(i, 0)) * x(i, 1);
      loss += error * error / (rows * layout.data);
      dy(i, 0) = 2 * error / (rows * layout.data);
    }
    model.down.backward_input(stream, dy, d_sum);
    model.down.backward_weight(stream, activated, dy, Accumulate::no);
    ops::gelu_backward(stream, sum, d_sum);
    model.up.backward_weight(stream, x, d_sum, Accumulate::no);

    data_group.all_reduce(stream, parameters.gradients()).wait(stream);
    data_group.all_reduce(stream, Vector<double>(&loss, {1})).wait(stream);
    optimizer.update(stream, {.learning_rate = 1e-2f, .weight_decay = 0}, step, /*gradient_scale=*/1);
    if (rank.rank() == 0 && step % 100 == 0) std::printf("step %4d  loss %.6f\n", step, loss);
  }
}

int main() {
  ThreadWorld world(layout.world());
  world.run(train);
}
