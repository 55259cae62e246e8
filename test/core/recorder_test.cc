// What is recorded, and what a profiler sees of it.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/recorder.hpp>

namespace trilith {
namespace {

struct PlainStream {
  void stamp(std::int64_t* time) const { *time = steady_time(); }
};

struct ProfiledStream : PlainStream {
  void begin_range(const char* name) const { log.emplace_back(name); }
  void end_range() const { log.emplace_back("end"); }
  mutable std::vector<std::string> log;
};

static_assert(profiled_stream<ProfiledStream> && !profiled_stream<PlainStream>);

TEST(Recording, IsARangeWhereThereIsAProfilerWhetherOrNotItIsRecorded) {
  const ProfiledStream stream;
  Recorder recorder;
  { const Recording outer(&recorder, stream, Activity::gradient_norm); }
  {
    const Recording outer(nullptr, stream, Activity::update);
    const Recording inner(nullptr, stream, Activity::action, 3, [] { return std::string("forward"); });
  }
  EXPECT_EQ(stream.log,
            (std::vector<std::string>{"gradient norm", "end", "update weights", "forward", "end", "end"}));
  EXPECT_EQ(recorder.events().size(), 1U);
}

TEST(Recording, AsksForNoNameWhereThereIsNoProfiler) {
  const PlainStream stream;
  Recorder recorder;
  {
    const Recording recording(&recorder, stream, Activity::action, 3, [] {
      ADD_FAILURE() << "asked for a name";
      return "";
    });
  }
  ASSERT_EQ(recorder.events().size(), 1U);
  EXPECT_EQ(recorder.events()[0].index, 3);
  EXPECT_GE(recorder.events()[0].end, recorder.events()[0].begin);
}

}  // namespace
}  // namespace trilith
