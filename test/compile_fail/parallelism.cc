// Does not compile: each case is one of parallelism.hpp's front door.
#include <trilith/parallel/parallelism.hpp>

namespace trilith {

#ifdef NO_TENSOR_RANK
constexpr ParallelShape shape = Parallelism<0, 1, 1>::shape;
#endif
#ifdef NO_PIPELINE_RANK
constexpr ParallelShape shape = Parallelism<1, 0, 1>::shape;
#endif
#ifdef NEGATIVE_DATA_RANKS
constexpr ParallelShape shape = Parallelism<1, 1, -2>::shape;
#endif
#ifdef NO_CONTEXT_RANK
constexpr ParallelShape shape = Parallelism<1, 1, 1, 0>::shape;
#endif

}  // namespace trilith
