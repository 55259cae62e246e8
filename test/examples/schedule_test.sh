#!/usr/bin/env bash
# draw_schedule as a user runs it: every policy is drawn in every form, and wrong input ends with one clear sentence and a
# status that is not 0.
set -u

schedule=$PWD/$1
own_schedule=$PWD/$2
cd "$TEST_TMPDIR" || exit 1
failures=0

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# Runs a command that must succeed; its output is in out.txt.
succeeds() {
  if ! timeout 60 "$@" > out.txt 2> err.txt; then
    fail "$*"
    cat out.txt err.txt
  fi
}

# refuses SENTENCE ARGUMENTS…: ends within 20 s, not with 0, with nothing drawn, and its one line on stderr has SENTENCE
# (the option parser adds a line that names --help).
refuses() {
  local sentence=$1
  shift
  timeout 20 "$schedule" "$@" > out.txt 2> err.txt
  local status=$?
  if [ $status -eq 0 ] || [ $status -ge 124 ]; then fail "status $status of: $*"; fi
  if ! grep -qF -- "$sentence" err.txt || [ "$(grep -vc '^Run with --help' err.txt)" -ne 1 ]; then
    fail "expected one line with \"$sentence\" from: $*"
    cat err.txt
  fi
  [ -s out.txt ] && fail "something drawn by: $*"
}

expect() {
  if ! grep -qE -- "$1" "$2"; then
    fail "expected \"$1\" in $2"
    head -n 50 "$2"
  fi
}

# Without options: 1F1B in the terminal, as text alone where there is no terminal.
succeeds "$schedule"
expect '^OneFOneB, p=4, m=8: makespan 33, bubble 3/11 \(27.3 %\) of all time, 3/8 \(37.5 %\) of busy time$' out.txt
expect '^rank 0  F0 F1 F2 F3 +B0--- F4 B1---' out.txt
expect '^in flight at most: 4 3 2 1 microbatches$' out.txt
grep -q $'\033' out.txt && fail "colour where there is no terminal"
succeeds "$schedule" --colour always
grep -q $'\033' out.txt || fail "colour where it was asked for"
succeeds "$schedule" --ranks 16 --microbatches 64 --width 80
awk '/^rank/ && length > 80 { exit 1 }' out.txt || fail "lines within the width"

# Every policy in every form, with its known makespan at p=4, m=8.
while read -r policy makespan options; do
  # shellcheck disable=SC2086
  succeeds "$schedule" --policy "$policy" $options --svg "$policy.svg" --html "$policy.html" \
    --trace "$policy.trace" --json "$policy.json"
  expect "\"makespan\": $makespan," "$policy.json"
  expect '^<svg xmlns=.*>$' "$policy.svg"
  expect '^</svg>$' "$policy.svg"
  expect '^<!DOCTYPE html>$' "$policy.html"
  expect '^\{.*"traceEvents":\[.*\}$' "$policy.trace"
  succeeds "$schedule" --policy "$policy" $options
  expect "^$policy, p=4, m=8.*: makespan $makespan," out.txt
done << END
GPipe 33
OneFOneB 33
Interleaved 57
Interleaved 105 --chunks 4
Interleaved 57 --chunks 2 --group 8
ZeroBubbleH1 27
ZeroBubbleH2 27
ZeroBubbleV 51
DualPipeV 54
END

# Figures as JSON on the terminal, and nothing else there.
succeeds "$schedule" --ranks 8 --microbatches 64 --json
expect '"fraction": "7/71"' out.txt
expect '"fraction": "7/64"' out.txt
[ "$(head -c 1 out.txt)" = "{" ] || fail "JSON alone"

# Costs: of all stages, of each, of messages, and of fused pairs.
succeeds "$schedule" --forward 2 --backward-input 3 --backward-weight 4 --json
expect '"makespan": 99,' out.txt
succeeds "$schedule" --ranks 2 --microbatches 1 --forward 1,5 --json
expect '"makespan": 10,' out.txt
succeeds "$schedule" --message 1 --json
expect '"makespan": 49,' out.txt
succeeds "$schedule" --policy DualPipeV --overlap --json
expect '"makespan": 44,' out.txt

# The table: every policy, and the sentence of those that refuse.
succeeds "$schedule" --compare
expect '^OneFOneB +33 +3/11 \(27.3 %\) +3/8 \(37.5 %\) +4 +48$' out.txt
expect '^Interleaved<2> +28.5 +3/19 \(15.8 %\) +3/16 \(18.8 %\) +5.5 +112$' out.txt
expect '^ZeroBubbleV +25.5 +1/17 ' out.txt
succeeds "$schedule" --compare --ranks 4 --microbatches 6
expect '^Interleaved<2> +Interleaved: m must be a multiple of N' out.txt
expect '^DualPipeV +DualPipeV: there must be at least 2p microbatches' out.txt

# Paths count from where the user stands.
mkdir -p elsewhere
BUILD_WORKING_DIRECTORY=$PWD/elsewhere succeeds "$schedule" --svg here.svg
[ -s elsewhere/here.svg ] || fail "a relative path"

# Wrong input.
refuses "there is no policy TwoFOneB; choose GPipe" --policy TwoFOneB
refuses "--ranks must be at least 1, but is 0" --ranks 0
refuses "--ranks must be at least 1, but is -4" --ranks -4
refuses "--microbatches must be at least 1, but is 0" --microbatches 0
refuses "--microbatches must be at least 1, but is -1" --microbatches -1
refuses "--ranks must be at least 1, but is 0" --compare --ranks 0
refuses "--ranks = four" --ranks four
refuses "--ranks = 99999999999" --ranks 99999999999
refuses "2000000000 ranks are too many to draw; --ranks must be at most 256" --ranks 2000000000
refuses "too many to draw; their product must be at most 65536" --microbatches 2000000000
refuses "too many to draw; their product must be at most 65536" --compare --ranks 64 --microbatches 8192
refuses "OneFOneB takes --chunks 1, but it is 2" --chunks 2
refuses "ZeroBubbleV takes --chunks 2, but it is 3" --policy ZeroBubbleV --chunks 3
refuses "Interleaved takes 2 to 6 chunks here, but --chunks is 0" --policy Interleaved --chunks 0
refuses "choose --policy OneFOneB for one" --policy Interleaved --chunks 1
refuses "GPipe has no groups of microbatches" --policy GPipe --group 4
refuses "--group is 17; give p, or a number from 1 to 16" --policy Interleaved --group 17
refuses "a group must have at least p microbatches" --policy Interleaved --group 2
refuses "m must be a multiple of N (or p)" --policy Interleaved --microbatches 6
refuses "use OneFOneB" --policy Interleaved --ranks 1
refuses "use ZeroBubbleV for fewer" --policy DualPipeV --microbatches 7
refuses "--forward must be from 1 to 1000000000, but is 0" --forward 0
refuses "--backward-input has 3 numbers; give one for all stages, or 4" --backward-input 1,2,3
refuses "--message must be from 0 to 1000000000, but is -1" --message -1
refuses "give one number for each cost" --compare --forward 1,1,1,1
refuses "leave --chunks and --group out" --compare --chunks 2
refuses "nowhere/timeline.svg cannot be written" --svg nowhere/timeline.svg
refuses "--colour" --colour pink
refuses "--no-such-option" --no-such-option

# A schedule of one's own is drawn and learns.
succeeds "$own_schedule"
expect '^EagerOneFOneB, p=4, m=8: makespan 39,' out.txt
expect '^in flight at most: 7 5 3 1 microbatches$' out.txt
awk '/^step +1 / { first = $4 } /^step 40/ { exit !($4 < 0.5 * first) }' out.txt || fail "a loss that falls"

echo "$failures failures"
[ $failures -eq 0 ]
