// Does not compile: each case is a trainer whose layout or world is wrong.
#include <functional>

#include <trilith/device/emulated.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/gpt.hpp>
#include <trilith/nn/llama.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/interleaved.hpp>
#include <trilith/schedule/microbatches.hpp>
#include <trilith/train/trainer.hpp>

namespace trilith {

#ifdef LAYOUT_OF_INT
using Layout = int;
#endif
// As is easily written for Config<Parallelism<2, 2, 2>>.
#ifdef BARE_PARALLELISM
using Layout = Parallelism<2, 2, 2>;
#endif
#ifdef SEQUENCE_SPLIT_OVER_CONTEXT_RANKS
using Layout = Config<Parallelism<1, 1, 1, 2>>;
#endif
#ifdef HYBRID_THAT_DOES_NOT_DIVIDE
using Layout = Config<Parallelism<1, 1, 1, 3>, Attention<Hybrid<2>>>;
#endif
#ifdef ATTENTION_SPLIT_BY_INT
using Layout = Config<Parallelism<1, 1, 1, 2>, Attention<Ring, int>>;
#endif
#ifdef ULYSSES_SPLIT_IN_A_ZIGZAG
using Layout = Config<Parallelism<1, 1, 1, 2>, Attention<Ulysses, Zigzag>>;
#endif
#ifdef TWO_DEVICES
using Layout = Config<Device<Host>, Device<Host>>;
#endif
#ifdef DEVICE_OF_INT
using Layout = Config<Device<int>>;
#endif

#ifdef CONSTANT_SHAPE_OVER_TENSOR_RANKS
using Layout = Config<Parallelism<8, 1, 1>, ModelShape<GptShape{.heads = 12}>>;
#define SHAPE_IS_CONSTANT
#endif
#ifdef CONSTANT_LLAMA_OVER_TENSOR_RANKS
using Layout = Config<Parallelism<16, 1, 1>, ModelShape<LlamaShape{.heads = 32, .kv_heads = 8}>>;
#define SHAPE_IS_CONSTANT
#define MODEL Llama
#endif
#ifdef CONSTANT_GPT_WITHOUT_HEADS
using Layout = Config<ModelShape<GptShape{.heads = 0}>>;
#define SHAPE_IS_CONSTANT
#endif
#ifdef CONSTANT_GPT_WITH_UNALIGNED_HEADS
using Layout = Config<Device<Emulated>, Precision<Bf16>, ModelShape<GptShape{.hidden = 120, .heads = 10}>>;
#define SHAPE_IS_CONSTANT
#endif
#ifdef CONSTANT_LLAMA_WITH_WIDE_HEADS
using Layout = Config<Device<Emulated>, ModelShape<LlamaShape{.head_dimension = 258}>>;
#define SHAPE_IS_CONSTANT
#define MODEL Llama
#endif
#ifdef CONSTANT_SHAPE_OF_ANOTHER_MODEL
using Layout = Config<ModelShape<12>>;
#define SHAPE_IS_CONSTANT
#endif

#ifdef CONSTANT_MICROBATCHES_REFUSED
using Layout = Config<Parallelism<1, 4, 1>, Schedule<Interleaved<2, 4>>, Microbatches<6>>;
#endif
// More than are proved.
#ifdef MANY_CONSTANT_MICROBATCHES_REFUSED
using Layout = Config<Parallelism<1, 4, 1>, Schedule<Interleaved<2, 4>>, Microbatches<4002>>;
#endif
#ifdef CONSTANT_MICROBATCHES_OF_A_WRONG_SCHEDULE
struct Mine : GPipe {
  static constexpr int peak_in_flight(int /*rank*/, int ranks, int /*microbatches*/) { return ranks; }
};
using Layout = Config<Parallelism<1, 2, 1>, Schedule<Mine>, Microbatches<3>>;
#endif

#ifdef SHAPE_GIVEN_TWICE
using Layout = Config<ModelShape<GptShape{.heads = 12}>>;
#endif
#ifdef SHAPE_NOT_GIVEN
using Layout = Config<>;
#define SHAPE_IS_CONSTANT
#endif

#ifdef MORE_RANKS_THAN_CAN_BE_COUNTED
using Layout = Config<Parallelism<65536, 65536, 1>>;
#endif

#ifndef MODEL
#define MODEL Gpt
#endif
#ifdef WORLD_OF_INT
void train(int world) {
  Trainer<Gpt, Config<>, int> trainer{GptShape{}, world, TrainerOptions{}};
}
#elif defined(WORLD_OF_ANOTHER_TYPE)
struct OtherWorld {
  using rank_type = ThreadRank;
  using communicator = ThreadCommunicator;
  int size();
  void run(const std::function<void(rank_type&)>& task);
};
void train(OtherWorld& world) {
  Trainer<Gpt, Config<>> trainer{GptShape{}, world, TrainerOptions{}};
}
#elif defined(SHAPE_IS_CONSTANT)
void train(ThreadWorld& world) {
  Trainer<MODEL, Layout> trainer{world, TrainerOptions{}};
}
#else
void train(ThreadWorld& world) {
  Trainer<Gpt, Layout> trainer{GptShape{}, world, TrainerOptions{}};
}
#endif

}  // namespace trilith
