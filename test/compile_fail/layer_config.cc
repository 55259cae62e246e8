// Does not compile: layers whose attention keeps the sequence whole, where the layout splits it.
#include <trilith/comm/thread_communicator.hpp>
#include <trilith/device/host.hpp>
#include <trilith/nn/layer_config.hpp>

namespace trilith {

#ifdef SEQUENCE_SPLIT_OVER_CONTEXT_RANKS
using Layout = Config<Parallelism<1, 1, 1, 2>, Attention<Local>>;
constexpr int context_ranks = LayerConfigOf<Layout, ThreadCommunicator>::context_ranks;
#endif

}  // namespace trilith
