// Does not compile: each case gives one policy what is not of its kind.
#include <trilith/attention/policy.hpp>
#include <trilith/core/precision.hpp>
#include <trilith/device/device.hpp>
#include <trilith/device/side_stream.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith {

#ifdef SCHEDULE_OF_INT
using Chosen = Schedule<int>::schedule;
#endif

#ifdef SCHEDULE_WITHOUT_PEAK
struct Mine {
  static constexpr const char* name = "Mine";
  static constexpr int chunks = 1;
  static constexpr int stage_of(int rank, int, int) { return rank; }
  static constexpr schedule::Program program(int, int, int) { return {}; }
};
using Chosen = Schedule<Mine>::schedule;
#endif

#ifdef DEVICE_OF_INT
using Chosen = Device<int>::device_type;
#endif

#ifdef DEVICE_WITHOUT_MEMORY
struct Mine {
  struct stream : ops::Stream {
    void synchronize();
    void stamp(std::int64_t*);
  };
  static constexpr const char* name = "Mine";
};
using Chosen = Device<Mine>::device_type;
#endif

#ifdef STREAM_WITHOUT_BRANCHES
struct Mine : ops::Stream {
  void wait(const Mine&) const;
};
constexpr int chosen = sizeof(SideStream<Mine>);
#endif

#ifdef PRECISION_OF_DOUBLE
using Chosen = Precision<double>::format;
#endif

#ifdef ATTENTION_OF_INT
using Chosen = Attention<int>::kind;
#endif

}  // namespace trilith
