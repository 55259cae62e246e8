#!/usr/bin/env bash
<<<<<<< HEAD
# What kernels take of a multiprocessor's registers, as a table, from the .usage files of cuda_assembly. Fails where a
# kernel spills or keeps anything in local memory. Takes also the .ptx files that come with them, and passes over those.
set -euo pipefail

failed=0
files=0
for file in "$@"; do
  [[ $file == *.usage ]] || continue
  files=$((files + 1))
  echo "$file"
  # ptxas says first the kernel, then its stack frame and spills, then its registers.
  awk '
    /Compiling entry function/ {
      kernel = $0
      sub(/.*simt5entryINS[0-9]*_[0-9]*kernels[0-9]*/, "", kernel)
      sub(/\x27 for .*/, "", kernel)
    }
    /bytes stack frame/ { memory = $1 + $5 + $9 }
    /Used [0-9]+ registers/ {
      sub(/.*Used /, "")
      printf "  %3d registers, %d bytes in local memory  %s\n", $1, memory, kernel
      ++kernels
      if (memory > 0) ++spilling
    }
    END {
      if (kernels == 0) print "  no kernels"
      if (spilling > 0) printf "  %d kernels keep something in local memory\n", spilling
      exit kernels == 0 || spilling > 0
    }' "$file" || failed=1
done
((files)) || { echo "no .usage files to look at"; failed=1; }
=======
# Holds that kernels keep nothing in local memory: no spills, no arrays that registers could not hold, no functions
# that are not inlined. Takes the .ptx and .usage files of cuda_assembly.
set -euo pipefail

failed=0
complain() {
  echo "$1: $2"
  failed=1
}

for file in "$@"; do
  case $file in
    *.usage)
      grep -q 'Compiling entry function' "$file" || complain "$file" "no report"
      none='^ *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'
      awk -v none="$none" '
        /Compiling entry function/ { kernel = $0 }
        /bytes stack frame/ && $0 !~ none { print kernel; print; found = 1 }
        END { exit found }' "$file" || complain "$file" "a kernel keeps something in local memory"
      ;;
    *.ptx)
      if grep -n '\.local' "$file"; then complain "$file" "a kernel uses local memory"; fi
      ;;
    *) complain "$file" "is neither .ptx nor .usage" ;;
  esac
done
(($#)) || complain "arguments" "no files to look at"
>>>>>>> 75afec5eb3a93d67b480f2d2a67bee1739109098
exit "$failed"
