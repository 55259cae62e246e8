// Does not compile: each case gives Config what it cannot compose.
#include <trilith/core/config.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/schedule/gpipe.hpp>
#include <trilith/schedule/microbatches.hpp>
#include <trilith/schedule/policy.hpp>

namespace trilith {

#ifdef TWO_SCHEDULES
using Layout = Config<Schedule<GPipe>, Parallelism<2, 2, 2>, Schedule<OneFOneB>>;
#endif
#ifdef TWO_NUMBERS_OF_MICROBATCHES
using Layout = Config<Microbatches<2>, Microbatches<4>>;
#endif
#ifdef SAME_POLICY_TWICE
using Layout = Config<Parallelism<2, 2, 2>, Parallelism<2, 2, 2>>;
#endif
#ifdef NO_POLICY
using Layout = Config<Parallelism<2, 2, 2>, int>;
#endif
// As is easily written for Schedule<GPipe>.
#ifdef BARE_SCHEDULE
using Layout = Config<GPipe>;
#endif
#ifdef CONFIG_IN_CONFIG
using Layout = Config<Config<>>;
#endif
#ifdef WRONG_POLICY
using Layout = Config<Schedule<OneFOneB>, Parallelism<0, 1, 1>>;
#endif

using Chosen = Layout::policy<ScheduleCategory>;

}  // namespace trilith
