// Does not compile: each case splits a sequence by what is no split.
#include <trilith/mask/split.hpp>

namespace trilith {

#ifdef OF_INT
constexpr SequenceSplit<int> split(8, 2);
#endif

#ifdef WITHOUT_COUNT
struct Mine {
  static constexpr const char* name = "Mine";
  static constexpr const char* rule = "sequence length must be divisible by CP";
  static constexpr Index multiple(int ranks) { return ranks; }
  static constexpr Index position(int rank, Index row, int ranks, Index length) {
    return Contiguous::position(rank, row, ranks, length);
  }
};
constexpr SequenceSplit<Mine> split(8, 2);
#endif

}  // namespace trilith
