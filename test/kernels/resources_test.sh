#!/usr/bin/env bash
# Prints what each kernel takes, and holds that it keeps nothing in local memory (no spills, no arrays that registers
# could not hold, no functions that are not inlined) and that a multiprocessor has registers for as many of its blocks as
# the kernel states, or for one where it states none (0 in the table). Takes the .ptx and .usage files of cuda_assembly.
set -euo pipefail

failed=0
complain() {
  echo "$1: $2"
  failed=1
}

# Of each kernel of a .ptx file and its report: registers, threads, blocks of a multiprocessor, bytes of stack, of spill
# stores and of spill loads, architecture, kernel.
table_of() {
  awk '
    match($0, /\.entry [A-Za-z0-9_]+/) { kernel = substr($0, RSTART + 7, RLENGTH - 7) }
    $1 == ".maxntid" { threads[kernel] = $2 + 0 }
    $1 == ".minnctapersm" { blocks[kernel] = $2 }
    /Compiling entry function/ { split($0, quoted, "\x27"); kernel = quoted[2]; sm = quoted[4] }
    /bytes stack frame/ { memory = $1 " " $5 " " $9 }
    match($0, /Used [0-9]+ registers/) {
      print substr($0, RSTART + 5, RLENGTH - 15), threads[kernel], blocks[kernel] + 0, memory, sm, kernel
    }
  ' "$1" "$2"
}

readable() {
  { c++filt 2>/dev/null || cat; } |
    sed -E 's/void trilith::v0::simt::entry<(.*)>\(.*/\1/; s/trilith::v0::(kernels::)?//g'
}

# Of the kernels in a report, and of functions that they call.
keeps_nothing='
  /Compiling entry function/ { kernel = $0 }
  /bytes stack frame/ && !/^ *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ {
    print kernel; print; found = 1
  }
  END { exit found }'

# A multiprocessor has 2048 threads and 65536 registers, of which a warp takes 256 at a time (CUDA C++ Programming Guide,
# "Technical Specifications per Compute Capability").
has_registers='
  { of_warp = int(($1 * 32 + 255) / 256) * 256; blocks = $3 ? $3 : 1 }
  !$2 || $2 * blocks > 2048 || of_warp * $2 / 32 * blocks > 65536 { print; found = 1 }
  END { exit found }'

echo "registers, threads, blocks of a multiprocessor, stack, spill stores, spill loads (bytes), architecture, kernel"
for file in "$@"; do
  case $file in
    *.usage)
      table=$(table_of "${file%.usage}.ptx" "$file" | readable)
      [[ -n $table ]] || complain "$file" "no report"
      echo "$table"
      awk "$keeps_nothing" "$file" || complain "$file" "a kernel keeps something in local memory"
      awk "$has_registers" <<<"$table" || complain "$file" "a multiprocessor does not hold the stated blocks"
      ;;
    *.ptx)
      if grep -n '\.local' "$file"; then complain "$file" "a kernel uses local memory"; fi
      ;;
    *) complain "$file" "is neither .ptx nor .usage" ;;
  esac
done
(($#)) || complain "arguments" "no files to look at"
exit "$failed"
