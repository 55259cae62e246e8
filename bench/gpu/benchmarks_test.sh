#!/usr/bin/env bash
# The benchmarks on a GPU prove their small results; where no GPU answers, each says so in one line, and with
# TRILITH_REQUIRE_GPU set (--config=gpu) that is a failure. Takes the benchmarks.
set -uo pipefail

(($#)) || { echo "no benchmarks to run" && exit 1; }
for benchmark in "$@"; do
  name=$(basename -- "$benchmark")
  said=$("$benchmark" --small 2>&1)
  status=$?
  echo "$said"
  if ((status == 77)) && [[ -z ${TRILITH_REQUIRE_GPU:-} && $said == "$name: no GPU: "* && $said != *$'\n'* ]]; then
    continue
  fi
  ((status == 0)) || { echo "$name ends with status $status" && exit 1; }
done
