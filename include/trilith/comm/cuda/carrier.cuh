// How operations of the ranks of one process are carried out in the memory of GPUs: of one that ranks share,
// or of several that reach each other's memory.
//
// Each communicator of a rank has a stream of its own, so that what moves runs beside what is computed. The
// member that posts last gives every member's stream its share of the work, to start when all parts are
// ready, which events of the posting streams tell; another event tells when all of it is done. So a host
// thread waits for other ranks to post and never for a GPU, and since streams wait only for work that has
// been given already, they cannot wait in a circle.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <trilith/comm/communicator.hpp>
#include <trilith/comm/reduce_ranks.hpp>
#include <trilith/comm/thread_hub.hpp>
#include <trilith/core/error.hpp>
#include <trilith/core/rounding.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/device/cuda.cuh>

namespace trilith::inline v0 {

// A carrier of BasicThreadCommunicator. Sums of 16-bit elements are made in float32 and rounded once.
class CudaCarrier {
 public:
  using stream = Cuda::Stream;

  // The rank's GPU becomes the calling thread's.
  CudaCarrier(int rank, const std::vector<int>& members)
      : own_(std::make_shared<Cuda::Stream>(Place{.rank = rank})) {
    constexpr std::size_t most = kernels::RankBuffers<float>::most;
    require(members.size() <= most, "a group of " + std::to_string(members.size()) + " ranks on GPUs",
            "ranks that are threads of one process form groups of at most " + std::to_string(most));
    for (const int member : members) {
      const int other = gpu::gpu_of(member);
      int reaches = 1;
      if (other != own_->gpu()) {
        gpu::check(cudaDeviceCanAccessPeer(&reaches, own_->gpu(), other), "cudaDeviceCanAccessPeer");
      }
      if (reaches == 0) {
        throw Error("GPU " + std::to_string(own_->gpu()) + " of rank " + std::to_string(rank) +
                        " cannot reach the memory of GPU " + std::to_string(other) + " of rank " +
                        std::to_string(member),
                    gpu::remedy("cudaErrorPeerAccessUnsupported"));
      }
    }
  }

  std::shared_ptr<const void> kept(const stream& s) const {
    auto posted = std::make_shared<Posted>(own_);
    posted->ready.record(s);
    return posted;
  }

  static void wait(const stream& s, const void* begun) { s.wait(done(begun)); }

  // Errors show in the next call that is checked.
  static void abandon(const void* begun) {
    if (begun != nullptr) gpu::ignore(cudaEventSynchronize(done(begun).get()));
  }

  template <class T>
  static ThreadHub::Work all_reduce(int /*ranks*/, Index count, Reduction reduction) {
    return {.begin = reduction == Reduction::sum ? &reduce_all<T, kernels::SumOfRanks>
                                                 : &reduce_all<T, kernels::MaxOfRanks>,
            .count = count};
  }
  template <class T>
  static ThreadHub::Work reduce_scatter(int /*ranks*/, Index count) {
    return {.begin = &reduce_blocks<T>, .count = count};
  }
  template <class T>
  static ThreadHub::Work all_gather(int /*ranks*/, Index count) {
    return {.begin = &gather_blocks<T>, .count = count};
  }
  template <class T>
  static ThreadHub::Work broadcast(int /*ranks*/, Index count, int root) {
    return {.begin = &copy_from_root<T>, .count = count, .argument = root};
  }
  template <class T>
  static ThreadHub::Work ring_shift(int /*ranks*/, Index count) {
    return {.begin = &shift_blocks<T>, .count = count};
  }
  static ThreadHub::Work barrier() { return {.begin = &meet}; }
  static ThreadHub::Work message(Index bytes) { return {.begin = &copy_message, .count = bytes}; }

 private:
  using Part = ThreadHub::Part;
  using Parts = ThreadHub::Parts;
  using Begun = std::shared_ptr<const void>;

  // Kept with a part.
  struct Posted {
    explicit Posted(std::shared_ptr<const Cuda::Stream> of_member) : own(std::move(of_member)) {}
    std::shared_ptr<const Cuda::Stream> own;  // the member's, of this communicator
    Cuda::Event ready;                        // of the stream that it was posted with
  };

  static const Posted& posted(const Part& part) { return *static_cast<const Posted*>(part.kept.get()); }
  static const Cuda::Stream& stream_of(const Part& part) { return *posted(part).own; }
  static const Cuda::Event& done(const void* begun) { return *static_cast<const Cuda::Event*>(begun); }

  // Of the work given to the stream so far. Made on its GPU.
  static Begun end_of(const Cuda::Stream& stream) {
    const auto end = std::make_shared<Cuda::Event>();
    end->record(stream);
    return end;
  }

  // give() gives members' streams work and returns an event that stands for its end. Where it throws half
  // way, no stream touches a buffer any more: members learn of the failure, and give theirs back.
  template <class Give>
  static Begun given(const Parts& parts, Give&& give) {
    try {
      return give();
    } catch (...) {
      for (const Part& part : parts) gpu::ignore(cudaStreamSynchronize(stream_of(part).get()));
      throw;
    }
  }

  // share(stream, member) gives a member's stream its share. All start when all parts are ready; the event
  // that is returned stands for the end of all.
  template <class Share>
  static Begun among_all(const Parts& parts, Share&& share) {
    return given(parts, [&] { return give_all(parts, share); });
  }
  template <class Share>
  static Begun give_all(const Parts& parts, Share&& share) {
    const Cuda::Stream& first = stream_of(parts[0]);
    return gpu::on_gpu(first.gpu(), [&] {
      for (const Part& part : parts) first.wait(posted(part).ready);
      const Cuda::Event start;
      start.record(first);
      for (std::size_t member = 0; member < parts.size(); ++member) {
        const Cuda::Stream& own = stream_of(parts[member]);
        gpu::on_gpu(own.gpu(), [&] {
          if (member > 0) own.wait(start);
          share(own, static_cast<Index>(member));
          if (member > 0) first.wait(own);
        });
      }
      return end_of(first);
    });
  }

  // out[0, count) of parts first_out, …, last_out − 1 = the reduction of all parts' in[offset, offset +
  // count).
  template <class T, class Op>
  static void reduce(const Cuda::Stream& s, const Parts& parts, Index in_offset, Index out_offset,
                     Index count, Index first_out, Index last_out) {
    if (count == 0) return;
    kernels::RankBuffers<T> buffers;
    bool aligned = true;
    const auto span = [&]<class Element>(Element* data) {
      aligned = aligned && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
      return simt::Global<Element>{data, count};
    };
    for (const Part& part : parts) {
      buffers.in[buffers.inputs++] = span(static_cast<const T*>(part.in) + in_offset);
    }
    for (Index k = first_out; k < last_out; ++k) {
      buffers.out[buffers.outputs++] = span(static_cast<T*>(parts[k].out) + out_offset);
    }
    buffers.count = count;
    using Wide = kernels::ReduceRanks<T, Op, 16 / sizeof(T)>;
    using Narrow = kernels::ReduceRanks<T, Op, 1>;
    if (aligned) {
      s.launch(Wide{}, Wide::grid(count), buffers);
    } else {
      s.launch(Narrow{}, Narrow::grid(count), buffers);
    }
  }

  static void copy(const Cuda::Stream& s, const Part& from, Index from_offset, const Part& to,
                   Index to_offset, Index bytes) {
    const std::byte* const source = static_cast<const std::byte*>(from.in) + from_offset;
    std::byte* const target = static_cast<std::byte*>(to.out) + to_offset;
    if (source == target || bytes == 0) return;
    gpu::check(
        cudaMemcpyAsync(target, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, s.get()),
        "cudaMemcpyAsync");
  }

  template <class T>
  static constexpr Index bytes_of(Index count) {
    return count * static_cast<Index>(sizeof(T));
  }

  // Each member reduces a part of the elements, for all.
  template <class T, class Op>
  static Begun reduce_all(const Parts& parts, Index count, int) {
    const Index ranks = static_cast<Index>(parts.size());
    const Index share = round_up(ceil_divide(count, ranks), static_cast<Index>(16 / sizeof(T)));
    return among_all(parts, [&](const Cuda::Stream& s, Index member) {
      if (ranks == 1) return;
      const Index first = std::min(count, member * share);
      reduce<T, Op>(s, parts, first, first, std::min(count, first + share) - first, 0, ranks);
    });
  }

  template <class T>
  static Begun reduce_blocks(const Parts& parts, Index count, int) {
    return among_all(parts, [&](const Cuda::Stream& s, Index member) {
      reduce<T, kernels::SumOfRanks>(s, parts, member * count, 0, count, member, member + 1);
    });
  }

  template <class T>
  static Begun gather_blocks(const Parts& parts, Index count, int) {
    const Index bytes = bytes_of<T>(count);
    return among_all(parts, [&](const Cuda::Stream& s, Index member) {
      for (std::size_t block = 0; block < parts.size(); ++block) {
        copy(s, parts[block], 0, parts[member], static_cast<Index>(block) * bytes, bytes);
      }
    });
  }

  template <class T>
  static Begun copy_from_root(const Parts& parts, Index count, int root) {
    return among_all(parts, [&](const Cuda::Stream& s, Index member) {
      copy(s, parts[root], 0, parts[member], 0, bytes_of<T>(count));
    });
  }

  template <class T>
  static Begun shift_blocks(const Parts& parts, Index count, int) {
    const Index ranks = static_cast<Index>(parts.size());
    return among_all(parts, [&](const Cuda::Stream& s, Index member) {
      copy(s, parts[(member + ranks - 1) % ranks], 0, parts[member], 0, bytes_of<T>(count));
    });
  }

  static Begun meet(const Parts& parts, Index, int) {
    return among_all(parts, [](const Cuda::Stream&, Index) {});
  }

  // By the receiver's stream.
  static Begun copy_message(const Parts& parts, Index bytes, int) {
    return given(parts, [&] {
      const Cuda::Stream& receiver = stream_of(parts[1]);
      return gpu::on_gpu(receiver.gpu(), [&] {
        for (const Part& part : parts) receiver.wait(posted(part).ready);
        copy(receiver, parts[0], 0, parts[1], 0, bytes);
        return end_of(receiver);
      });
    });
  }

  std::shared_ptr<const Cuda::Stream> own_;
};

}  // namespace trilith::inline v0
