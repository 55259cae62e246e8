#!/usr/bin/env bash
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
exit "$failed"
