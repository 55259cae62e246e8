#!/usr/bin/env bash
# Prints the registers of each kernel, and holds that it keeps nothing in local memory: no spills, no arrays that
# registers could not hold, no functions that are not inlined. Takes the .ptx and .usage files of cuda_assembly.
set -euo pipefail

failed=0
complain() {
  echo "$1: $2"
  failed=1
}

# registers, bytes of stack, of spill stores and of spill loads, architecture and kernel, of each kernel in a report.
table_of() {
  awk '
    /Compiling entry function/ { split($0, quoted, "\x27"); kernel = quoted[2]; sm = quoted[4] }
    /bytes stack frame/ { memory = $1 " " $5 " " $9 }
    /Used [0-9]+ registers/ { match($0, /Used [0-9]+/); print substr($0, RSTART + 5, RLENGTH - 5), memory, sm, kernel }
  ' "$1" | { c++filt 2>/dev/null || cat; } | sed -E 's/void trilith::v0::simt::entry<(.*)>\(.*/\1/; s/trilith::v0::(kernels::)?//g'
}

echo "registers, stack, spill stores, spill loads (bytes), architecture, kernel"
for file in "$@"; do
  case $file in
    *.usage)
      grep -q 'Compiling entry function' "$file" || complain "$file" "no report"
      table_of "$file"
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
