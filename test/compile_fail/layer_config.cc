// Does not compile: each case is layers whose policies do not go together.
#include <trilith/comm/thread_communicator.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/layer_config.hpp>

namespace trilith {

#ifdef SEQUENCE_SPLIT_OVER_CONTEXT_RANKS
using Layout = Config<Parallelism<1, 1, 1, 2>, Attention<Local>>;
#endif
#ifdef BF16_ON_THE_HOST
using Layout = Config<Device<Host>, Precision<Bf16>>;
#endif
#ifdef F16_ON_THE_HOST
using Layout = Config<Precision<F16>>;
#endif
#ifdef THREADS_OVER_FOREIGN_MEMORY
struct Foreign : Host {
  struct stream : ops::Stream {
    explicit stream(const Place&) {}
    void synchronize();
    void stamp(std::int64_t*);
  };
};
using Layout = Config<Device<Foreign>>;
#endif

constexpr int context_ranks = LayerConfigOf<Layout, ThreadCommunicator>::context_ranks;

}  // namespace trilith
