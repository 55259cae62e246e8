#!/usr/bin/env bash
# What the proof of a schedule adds to the time that compiling takes.
#
#     ./bazelw run //bench:compile_time
#
# For every policy a file that names a layout of four pipeline ranks and its Microbatches<M> is compiled twice with $CXX
# (g++ if it is not set): once as it is, once asking for the proof, as a trainer does. M is the most that a trainer asks
# the compiler to prove (schedule::provable). Each figure is the fastest of three, in seconds.
set -euo pipefail

compiler=${CXX:-g++}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

policies=('GPipe gpipe 64' 'OneFOneB one_f_one_b 64' 'Interleaved<2> interleaved 32' 'ZeroBubbleH1 zero_bubble_h1 64'
  'ZeroBubbleH2 zero_bubble_h2 64' 'ZeroBubbleV zero_bubble_v 32' 'DualPipeV dual_pipe_v 32')

# seconds DEFINES…: of compiling $folder/file.cc.
seconds() {
  local best='' TIMEFORMAT=%R
  for _ in 1 2 3; do
    local time
    time=$({ time "$compiler" -std=c++20 -fsyntax-only -Iinclude "$@" "$folder/file.cc" >&2; } 2>&1) || {
      echo "compile_time: $compiler does not compile the file of ${policy[0]}: $time" >&2
      exit 1
    }
    best=$(printf '%s\n' $best "$time" | sort -n | head -n 1)
  done
  echo "$best"
}

"$compiler" --version | head -n 1
printf '%-16s %3s %4s %10s %10s %10s\n' policy p m without proof adds
for line in "${policies[@]}"; do
  read -r -a policy <<< "$line"
  cat > "$folder/file.cc" << END
#include <trilith/core/config.hpp>
#include <trilith/parallel/parallelism.hpp>
#include <trilith/schedule/${policy[1]}.hpp>
#include <trilith/schedule/microbatches.hpp>
#include <trilith/schedule/proof.hpp>
using namespace trilith;
using Layout = Config<Parallelism<1, 4, 1>, Schedule<${policy[0]}>, Microbatches<${policy[2]}>>;
constexpr int m = Layout::policy<MicrobatchesCategory>::count;
static_assert(schedule::provable(4, m, ${policy[0]}::chunks) && !schedule::provable(4, m + 1, ${policy[0]}::chunks));
#ifdef PROVE
static_assert(sizeof(schedule::Proof<${policy[0]}, 4, m>) > 0);
static_assert(schedule::Proof<${policy[0]}, 4, m>::verdict.law == schedule::Law::none);
#endif
END
  without=$(seconds)
  proof=$(seconds -DPROVE)
  printf '%-16s %3d %4d %10.2f %10.2f %10.2f\n' "${policy[0]}" 4 "${policy[2]}" "$without" "$proof" \
    "$(awk -v a="$proof" -v b="$without" 'BEGIN { print a - b }')"
done
