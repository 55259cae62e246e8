#!/usr/bin/env bash
# compile_fail_test: SOURCE, compiled with the arguments as further flags, must fail with SENTENCE in the first line
# with "error:".
set -u

compiler=${CXX:-g++}
output=$(LC_ALL=C "$compiler" -std=c++20 -fopenmp -fsyntax-only "$@" -I include "$SOURCE" 2>&1)
status=$?

if ((status == 0)); then
  echo "$SOURCE compiled, but must fail with: $SENTENCE"
  exit 1
fi
first=$(grep -m1 'error:' <<<"$output")
if [[ $first != *"$SENTENCE"* ]]; then
  printf '%s\n' "The first error of $SOURCE must say:" "  $SENTENCE" "but says:" "  ${first:-no line with error:}" \
    "The compiler's whole output:" "$output"
  exit 1
fi
