#!/usr/bin/env bash
# Looks at what nvcc makes of block_reduce.cu: CUB reduces a warp in the order that the emulator takes
# (kernels/block_reduce.hpp), which a newer CUB need not do. Lanes combine with those 1, 2, 4, 8 and 16 above, then come
# two barriers. Takes the .ptx files of cuda_assembly, and passes over its .usage files. The order of the warps shows in
# the bits of a GPU alone: test/simt/device_test.cc.
set -euo pipefail

failed=0
complain() {
  echo "$1: $2"
  failed=1
}

# Of each kernel of a .ptx file: the distances of its shuffles, those of one value's words once, and its barriers.
steps_of() {
  awk '
    function say() { if (kernel) print kernel steps }
    { gsub(/[,;(]/, "") }
    $2 == ".entry" { say(); kernel = $3; steps = ""; split("", constant) }
    $1 ~ /^mov\.[bsu]32$/ && $3 ~ /^[0-9]+$/ { constant[$2] = $3 }
    $1 ~ /^shfl\.sync\.down/ {
      step = $4 in constant ? constant[$4] : $4
      if (step != last) steps = steps " " step
      last = step
    }
    $1 ~ /^shfl\.sync/ && $1 !~ /down/ { steps = steps " " $1 }
    $1 == "bar.sync" { steps = steps " barrier"; last = "" }
    END { say() }
  ' "$1"
}

reduction=" 1 2 4 8 16 barrier barrier"
for file in "$@"; do
  case $file in
    *.usage) ;;
    *.ptx)
      kernels=0
      while read -r kernel steps; do
        kernels=$((kernels + 1))
        # The loop over two reductions may be unrolled.
        [[ " $steps" == "$reduction" || " $steps" == "$reduction$reduction" ]] ||
          complain "$file" "$kernel has the steps \"$steps\", expected \"${reduction# }\""
      done < <(steps_of "$file")
      ((kernels)) || complain "$file" "no kernels"
      ;;
    *) complain "$file" "is neither .ptx nor .usage" ;;
  esac
done
(($#)) || complain "arguments" "no files to look at"
exit "$failed"
