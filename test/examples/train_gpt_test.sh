#!/usr/bin/env bash
# train_gpt as a user runs it: it learns, its checkpoint goes on at another layout, and wrong input ends with one
# clear sentence and a status that is not 0.
set -u

train_gpt=$PWD/$1       # TP=2, PP=2, DP=2
other_layout=$PWD/$2    # TP=1, PP=1, DP=2, CP=2
fixture=$PWD/$3
read_trace=$PWD/$4
cd "$TEST_TMPDIR" || exit 1
failures=0

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# Runs a command that must succeed; its output is in out.txt.
succeeds() {
  if ! timeout 120 "$@" > out.txt 2>&1; then
    fail "$*"
    cat out.txt
  fi
}

# refuses SENTENCE COMMAND…: the command ends within 20 s, not with 0, and its one line on stderr has SENTENCE
# (the option parser adds a line that names --help).
refuses() {
  local sentence=$1
  shift
  timeout 20 "$@" > out.txt 2> err.txt
  local status=$?
  if [ $status -eq 0 ] || [ $status -ge 124 ]; then fail "status $status of: $*"; fi
  if ! grep -qF -- "$sentence" err.txt || [ "$(grep -vc '^Run with --help' err.txt)" -ne 1 ]; then
    fail "expected one line with \"$sentence\" from: $*"
    cat err.txt
  fi
}

expect() {
  if ! grep -qE -- "$1" "$2"; then
    fail "expected \"$1\" in $2"
    head -n 50 "$2"
  fi
}

# Sentences that do not repeat, since what stands in training is not held out.
awk 'BEGIN {
  srand(7)
  split("the a some no quick brown lazy old fox dog cat bird runs jumps sleeps over under near house tree", word)
  for (line = 0; line < 400; ++line) {
    for (i = 0; i < 9; ++i) printf "%s ", word[int(rand() * 19) + 1]
    print "."
  }
}' > text.txt
tiny=(--layers 2 --hidden 32 --heads 4 --sequence 32 --batch 8 --microbatches 2 --warm-up 5)

# It trains, validates, samples, saves and counts.
succeeds "$train_gpt" --data text.txt "${tiny[@]}" --steps 300 --learning-rate 0.01 --sample 20 \
  --save model.safetensors --metrics metrics.jsonl --ledger
expect '^ +300 +[0-9.]+' out.txt
expect 'validation loss [0-9.]+ nats per token; unigram entropy of the same text [0-9.]+' out.txt
expect '^tensor +all_reduce' out.txt
[ "$(wc -l < metrics.jsonl)" -eq 300 ] || fail "a line of metrics for each step"
expect '^\{.*"loss":[0-9.]+.*"step":300.*\}$' metrics.jsonl
awk '/validation loss/ { exit !($3 < 0.6 * $NF) }' out.txt || fail "a loss well under the unigram entropy"
trained=$(awk '/validation loss/ { print $3 }' out.txt)

# Its checkpoint goes on at another layout, where it left off: no training step, the same validation loss.
succeeds "$other_layout" --data text.txt --init model.safetensors --sequence 32 --batch 8 --microbatches 2 \
  --steps 0 --sample 0
again=$(awk '/validation loss/ { print $3 }' out.txt)
awk -v a="$trained" -v b="$again" 'BEGIN { exit !(a - b < 2e-4 && b - a < 2e-4) }' ||
  fail "validation loss $trained before, $again after another layout has loaded it"

# So do sequences that the context ranks cannot split evenly, where asked for.
succeeds "$other_layout" --data text.txt --init model.safetensors --sequence 31 --pad --batch 8 --microbatches 2 \
  --steps 2 --sample 5
refuses "sequence length must be divisible by 2 * CP to balance a causal mask" \
  "$other_layout" --data text.txt --init model.safetensors --sequence 31 --batch 8 --microbatches 2

# A Llama does all this too: it learns, and goes on at another layout, over context ranks.
succeeds "$train_gpt" --model llama --data text.txt "${tiny[@]}" --kv-heads 2 --steps 150 --learning-rate 0.01 \
  --sample 20 --save llama.safetensors
awk '/validation loss/ { exit !($3 < 0.6 * $NF) }' out.txt || fail "a Llama's loss well under the unigram entropy"
trained=$(awk '/validation loss/ { print $3 }' out.txt)
succeeds "$other_layout" --model llama --data text.txt --init llama.safetensors --sequence 32 --batch 8 \
  --microbatches 2 --steps 0 --sample 0
again=$(awk '/validation loss/ { print $3 }' out.txt)
awk -v a="$trained" -v b="$again" 'BEGIN { exit !(a - b < 2e-4 && b - a < 2e-4) }' ||
  fail "a Llama's validation loss $trained before, $again after another layout has loaded it"
refuses "is not a GPT-2 that can be loaded" "$train_gpt" --data text.txt --init llama.safetensors --sequence 32
refuses "is not a Llama that can be loaded" \
  "$train_gpt" --model llama --data text.txt --init model.safetensors --sequence 32
refuses "--init takes the model from the checkpoint" \
  "$train_gpt" --model llama --data text.txt --init llama.safetensors --kv-heads 2
refuses "--init takes the heads of a Llama from the checkpoint" \
  "$train_gpt" --model llama --data text.txt --init llama.safetensors --heads 4
for of_a_llama in --tied --replicate-kv-heads "--kv-heads 2" "--feed-forward 64"; do
  # shellcheck disable=SC2086
  refuses "--kv-heads, --replicate-kv-heads, --feed-forward and --tied describe a Llama" \
    "$train_gpt" --data text.txt $of_a_llama
done
refuses "describe a Llama" \
  "$train_gpt" --data text.txt --init model.safetensors --sequence 32 --replicate-kv-heads
refuses "key/value heads cannot be split over TP" "$train_gpt" --model llama --data text.txt --kv-heads 1
succeeds "$train_gpt" --model llama --data text.txt "${tiny[@]}" --kv-heads 1 --replicate-kv-heads --steps 2 --sample 0
refuses "--hidden 32 cannot be split over --heads 6" "$train_gpt" --model llama --data text.txt --hidden 32 --heads 6

# The same seed gives the same losses.
succeeds "$train_gpt" --data text.txt "${tiny[@]}" --steps 5 --sample 0 --metrics one.jsonl
succeeds "$train_gpt" --data text.txt "${tiny[@]}" --steps 5 --sample 0 --metrics two.jsonl
diff <(sed 's/"tokens_per_second":[^,}]*//' one.jsonl) <(sed 's/"tokens_per_second":[^,}]*//' two.jsonl) ||
  fail "two runs of one seed differ"

# The trace of a step: every rank, action, message and update of it. 1F1B with 2 stages and 2 microbatches has 4 actions
# on each of 8 ranks, and 2 messages each way in each of 4 pipelines.
succeeds "$train_gpt" --data text.txt "${tiny[@]}" --steps 3 --sample 0 --trace last.json
expect '^trace   last.json$' out.txt
succeeds "$read_trace" last.json
[ "$(grep -c '^process rank' out.txt)" -eq 8 ] || fail "a process for each rank"
expect '^process rank 7 \(tensor 1, context 0, data 1, pipeline 1\)$' out.txt
expect '^actions 32$' out.txt
expect '^flows 16$' out.txt
for phase in 'load batch' 'reduce tied gradient' 'reduce gradients' 'sum loss' 'gradient norm' 'update weights'; do
  expect "^$phase 8\$" out.txt
done
succeeds "$train_gpt" --data text.txt "${tiny[@]}" --steps 3 --sample 0 --trace second.json --trace-step 2
succeeds "$read_trace" second.json
expect '^actions 32$' out.txt
# One pipeline rank sends nothing, and has a pipeline of its own for each data rank.
succeeds "$other_layout" --data text.txt "${tiny[@]}" --steps 1 --sample 0 --trace data.json
succeeds "$read_trace" data.json
expect '^actions 16$' out.txt
expect '^flows 0$' out.txt

# A GPT-2 that transformers has saved (prefixed names, a config.json beside it) trains on, with tokens in llm.c's
# format.
le32() { printf "\\x$(printf %02x $(($1 & 255)))\\x$(printf %02x $(($1 >> 8 & 255)))\\x$(printf %02x $(($1 >> 16 & 255)))\\x$(printf %02x $(($1 >> 24 & 255)))"; }
{
  le32 20240520
  le32 1
  le32 600
  head -c $((253 * 4)) /dev/zero
  for i in $(seq 600); do printf "\\x$(printf %02x $((i * i % 37)))\\x00"; done
} > tokens.bin
succeeds "$train_gpt" --data tokens.bin --init "$fixture/model.safetensors" --sequence 8 --batch 8 --microbatches 2 \
  --steps 40 --learning-rate 0.01 --warm-up 5 --sample 5
expect 'model   2 layers, hidden 12, 4 heads, vocabulary 37' out.txt
awk '/validation loss/ { exit !($3 < $NF) }' out.txt || fail "a loss under the unigram entropy"

# Wrong input.
refuses "nowhere.txt" "$train_gpt" --data nowhere.txt
: > empty.txt
refuses "empty.txt" "$train_gpt" --data empty.txt
head -c 100 text.txt > short.txt
refuses "needs 129 tokens" "$train_gpt" --data short.txt
refuses "lies outside the model's vocabulary of 64" "$train_gpt" --data text.txt --vocabulary 64
refuses "a batch of 6 sequences cannot be divided over DP=2 data ranks and 4 microbatches" \
  "$train_gpt" --data text.txt --batch 6
refuses "heads cannot be split over TP" "$train_gpt" --data text.txt --heads 1 --hidden 32
refuses "hidden cannot be split over the heads" "$train_gpt" --data text.txt --heads 6 --hidden 32
refuses "layers cannot be split over PP" "$train_gpt" --data text.txt --layers 1
refuses "the given split has 2 stages and 5 layers" "$train_gpt" --data text.txt --layers-per-stage 2,3
# Before any training, which takes far longer than refuses() waits.
long=(--data text.txt --steps 1000000)
refuses "cannot save nowhere/model.safetensors: its folder nowhere cannot be used" \
  "$train_gpt" "${long[@]}" --save nowhere/model.safetensors
mkdir -p a_folder
refuses "cannot save a_folder: it is a folder" "$train_gpt" "${long[@]}" --save a_folder
refuses "File name too long" "$train_gpt" "${long[@]}" --save "$(printf %0300d 0)"
refuses "the prompt has the byte 126, outside the model's vocabulary of 123" \
  "$train_gpt" "${long[@]}" --vocabulary 123 --prompt "about ~"
refuses "--init: must name a file" "$train_gpt" "${long[@]}" --init ""
refuses "cannot allocate" "$train_gpt" "${long[@]}" --layers 500 --hidden 16384
refuses "at most 2^16 layers" "$train_gpt" "${long[@]}" --layers 2147483647
refuses "nowhere/trace.json cannot be written; give a file in a folder that exists" \
  "$train_gpt" --data text.txt "${tiny[@]}" --trace nowhere/trace.json
refuses "a_folder cannot be written" "$train_gpt" --data text.txt "${tiny[@]}" --trace a_folder
grep -q '^ *[0-9]* *[0-9.]* ' out.txt && fail "training before a trace that cannot be written is refused"
refuses "there is no step 4 among --steps 3; choose --trace-step from 1 to 3" \
  "$train_gpt" --data text.txt --steps 3 --trace last.json --trace-step 4
refuses "--trace-step requires --trace" "$train_gpt" --data text.txt --trace-step 4
refuses "--init takes the model from the checkpoint" "$train_gpt" --data text.txt --init model.safetensors --layers 3
refuses "none.safetensors" "$train_gpt" --data text.txt --init none.safetensors
head -c 2000 model.safetensors > cut.safetensors
refuses "cut.safetensors" "$train_gpt" --data text.txt --init cut.safetensors --heads 4
printf '\xff\xff\xff\xff\xff\xff\xff\x7f{}' > absurd.safetensors
refuses "absurd.safetensors" "$train_gpt" --data text.txt --init absurd.safetensors --heads 4
refuses "the loss of step" "$train_gpt" --data text.txt "${tiny[@]}" --steps 50 --learning-rate 1e30 --clip 0 \
  --trace early.json --trace-step 1
succeeds "$read_trace" early.json
expect '^actions 32$' out.txt
refuses "the loss of step" "$train_gpt" --data text.txt "${tiny[@]}" --steps 50 --learning-rate 1e30 --clip 0 \
  --trace late.json
[ -s late.json ] && fail "a trace of a step that was not reached"
refuses "--steps = many" "$train_gpt" --steps many
refuses "must not be negative" "$train_gpt" --batch -8
refuses "--no-such-option" "$train_gpt" --no-such-option

# What could not be printed is not passed over.
if [ -w /dev/full ]; then
  "$train_gpt" --data text.txt "${tiny[@]}" --steps 1 --sample 0 > /dev/full 2> err.txt && fail "status 0 on a full disk"
  expect 'the output could not be written' err.txt
fi

# A save that fails leaves the old file whole.
if [ "$(id -u)" -ne 0 ]; then
  mkdir -p locked && cp model.safetensors locked/ && chmod a-w locked
  refuses "locked/model.safetensors" "$train_gpt" --data text.txt "${tiny[@]}" --steps 1 --sample 0 \
    --save locked/model.safetensors
  chmod u+w locked
  cmp model.safetensors locked/model.safetensors || fail "the old file is not whole"
fi

echo "$failures failures"
[ $failures -eq 0 ]
