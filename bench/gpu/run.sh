#!/usr/bin/env bash
# Runs what a bundle (bundle.sh) holds on this machine's GPU: the tests, among them the primitives against the emulator;
# the memory and race checkers, where compute-sanitizer is found, on small sizes; the benchmarks, and PyTorch's
# scaled_dot_product_attention, where a python3 has it.
#
#   ./run.sh [--output=DIR] [--seconds=N]
#
# DIR (./results if not given) gets results.json and log.txt. What N seconds (450 if not given) don't suffice for is
# called not run. Exit status: 0 if all tests have passed and nothing else has failed, 77 if there is no GPU, else 1. A
# signal ends it together with the program that runs.
set -uo pipefail

bundle=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
output=results
seconds=450
for argument in "$@"; do
  if [[ $argument =~ ^--output=(.+)$ ]]; then
    output=${BASH_REMATCH[1]}
  elif [[ $argument =~ ^--seconds=([1-9][0-9]{0,5})$ ]]; then
    seconds=${BASH_REMATCH[1]}
  else
    echo "run.sh: cannot use $argument: give --output=DIR or --seconds=N" >&2
    exit 1
  fi
done

# A signal ends the program that runs, too: it is in a process group of timeout's, which Ctrl-C does not reach.
running=
reports=$(mktemp -d) || exit 1
finish() {
  if [[ -n $running ]] && kill "$running" 2>/dev/null; then wait "$running"; fi
  rm -rf "$reports"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

gpu=$("$bundle/bin/machine" "$reports/machine.json" 2>&1) || {
  status=$?
  echo "run.sh: $gpu" >&2
  exit $((status == 77 ? 77 : 1))
}
mkdir -p -- "$output" || exit 1
output=$(realpath -- "$output")
log=$output/log.txt
: >"$log" || exit 1
export TRILITH_REQUIRE_GPU=1

# Folders that libraries of CUDA may lie in.
library_folders() {
  local python='import site; print(*site.getsitepackages(), site.getusersitepackages(), sep="\n")'
  printf '%s\n' ${CUDA_HOME:+"$CUDA_HOME/lib64"} /usr/local/cuda*/lib64
  timeout 20 python3 -c "$python" 2>/dev/null | while read -r packages; do printf '%s\n' "$packages"/nvidia/*/lib; done
}

# Before each program of the bundle, but not before PyTorch, which brings its own.
paths=${LD_LIBRARY_PATH:-}
while read -r library; do
  folder=$(library_folders | while read -r each; do if [[ -e $each/$library ]]; then echo "$each" && break; fi; done)
  if [[ -n $folder ]]; then
    paths=$folder${paths:+:$paths}
  elif ! ldconfig -p 2>/dev/null | grep -qF "$library"; then
    echo "run.sh: $library is not found: what needs it fails; set CUDA_HOME to a CUDA Toolkit"
  fi
done <"$bundle/libraries"
with_libraries=(env "LD_LIBRARY_PATH=$paths")

failed=0
steps=$reports/steps

# record KIND NAME OUTCOME SECONDS
record() {
  printf '%s\t%s\t%s\t%s\n' "$@" >>"$steps"
  printf '%-10s %-44s %s (%d s)\n' "$@"
  if [[ $3 == failed || ($1 == test && $3 != passed) ]]; then failed=1; fi
}

# step KIND NAME LIMIT END COMMAND…: runs a command for LIMIT seconds at most, and at most until END seconds after the
# start of this script.
step() {
  local kind=$1 name=$2 limit=$3 left=$(($4 - SECONDS)) started=$SECONDS status outcome
  shift 4
  if ((limit > left)); then limit=$left; fi
  if ((limit < 1)); then
    record "$kind" "$name" 'not run: out of time' 0
    return
  fi
  echo "== $kind: $name" >>"$log"
  timeout --kill-after=2 "$limit" "$@" >>"$log" 2>&1 &
  running=$!
  wait "$running"
  status=$?
  running=
  case $status in
    0) outcome=passed ;;
    77) outcome="not run: $(tail -n 1 "$log" | tr '\t' ' ')" ;;
    124 | 137) outcome='not run to its end: out of time' ;;
    *) outcome=failed ;;
  esac
  record "$kind" "$name" "$outcome" "$((SECONDS - started))"
}

checker() {
  local each
  for each in compute-sanitizer "${CUDA_HOME:-}"/bin/compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer; do
    command -v "$each" && return
  done
}

echo "$gpu"

limit=$((seconds / 8))
for test in "$bundle"/tests/*; do
  step test "$(basename -- "$test")" "$limit" "$((seconds / 4))" "${with_libraries[@]}" "$test"
done

# Of the tests, those of the primitives are small enough.
sanitizer=$(checker)
for tool in memcheck racecheck; do
  for program in "$bundle"/tests/simt_* "$bundle"/bin/benchmarks/*; do
    name="$tool $(basename -- "$program")"
    command=("$program")
    if [[ $program == */benchmarks/* ]]; then command+=(--small); fi
    if [[ -n $sanitizer ]]; then
      step checker "$name" "$limit" "$((seconds / 2))" \
        "${with_libraries[@]}" "$sanitizer" --tool "$tool" --error-exitcode 1 "${command[@]}"
    else
      record checker "$name" 'not run: compute-sanitizer is not found' 0
    fi
  done
done

limit=$((seconds / 4))
for benchmark in "$bundle"/bin/benchmarks/*; do
  name=$(basename -- "$benchmark")
  step benchmark "$name" "$limit" "$seconds" "${with_libraries[@]}" "$benchmark" --output="$reports/$name.json"
done
if command -v python3 >/dev/null; then
  step benchmark sdpa "$limit" "$seconds" python3 "$bundle/sdpa.py" --output="$reports/baseline"
else
  record benchmark sdpa 'not run: there is no python3' 0
fi

echo
"$bundle/bin/summary" --steps="$steps" --baseline="$reports/baseline" --output="$output/results.json" \
  "$reports"/*.json || failed=1
echo
awk -F '\t' '{ ++count[$1 " " ($3 ~ /^not run/ ? "not run" : $3)] }
  END { for (each in count) printf "%s: %d\n", each, count[each] | "sort" }' "$steps"
echo "$output/results.json, $log"
exit "$failed"
