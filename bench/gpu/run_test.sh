#!/usr/bin/env bash
# run.sh on bundles whose programs are scripts: what it says and returns without a GPU, when all goes well, when a test
# fails, and when time runs out. Takes run.sh and the program that makes the summary.
set -uo pipefail

run=$1 summary=$2
failed=0

complain() {
  echo "$1; run.sh said:"
  cat "$folder/said"
  failed=1
}

# program FILE, with what it does on standard input.
program() {
  mkdir -p "$(dirname "$bundle/$1")"
  { echo '#!/usr/bin/env bash' && cat; } >"$bundle/$1"
  chmod +x "$bundle/$1"
}

# A bundle in which all goes well.
make_bundle() {
  folder=$(mktemp -d "$TEST_TMPDIR/XXXXXX")
  bundle="$folder/the bundle"
  mkdir -p "$bundle/bin"
  cp "$run" "$bundle/run.sh"
  cp "$summary" "$bundle/bin/summary"
  : >"$bundle/libraries"
  program bin/machine <<'END'
echo '{"machine": {"card": "a GPU", "driver": "1", "date": "today"}, "measurements": []}' >"$1"
echo "a GPU, driver 1"
END
  program tests/simt_device_test <<'END'
[[ $TRILITH_REQUIRE_GPU == 1 ]]
END
  program bin/benchmarks/copying <<'END'
if [[ $1 == --small ]]; then exit 0; fi
cat >"${1#--output=}" <<<'{"machine": {"card": "a GPU", "driver": "1", "date": "today"}, "measurements": [
  {"name": "copy", "value": 4000, "unit": "GB/s"},
  {"name": "attention/forward", "value": 300, "unit": "TFLOP/s", "share": 0.5, "limit": "GEMM"}]}'
END
  cat >"$bundle/sdpa.py" <<'END'
import sys
with open(sys.argv[1].removeprefix("--output="), "w") as file:
    file.write('{"machine": {"card": "a GPU", "driver": "1", "date": "today"}, "measurements": ['
               '{"name": "attention/forward", "value": 400, "unit": "TFLOP/s"}]}')
END
  mkdir "$folder/tools"
  cat >"$folder/tools/compute-sanitizer" <<'END'
#!/usr/bin/env bash
shift 4
exec "$@"
END
  chmod +x "$folder/tools/compute-sanitizer"
}

# expect STATUS ARGUMENTS…: runs the bundle.
expect() {
  local status=$1 actual
  shift
  (cd "$folder" && PATH=$folder/tools:$PATH "$bundle/run.sh" "$@") >"$folder/said" 2>&1
  actual=$?
  ((actual == status)) || complain "run.sh $* ends with status $actual, expected $status"
}
says() {
  grep -qE -- "$1" "$folder/said" || complain "no line matches $1"
}

make_bundle
program bin/machine <<<'echo "no GPU: no CUDA device" >&2; exit 77'
expect 77
[[ $(<"$folder/said") == 'run.sh: no GPU: no CUDA device' ]] || complain 'without a GPU it says more than that'

make_bundle
program bin/machine <<<'echo "cannot run" >&2; exit 1'
expect 1
says '^run.sh: cannot run'

make_bundle
for option in --nonsense --seconds=12x --output=; do
  expect 1 "$option"
  says "cannot use $option"
done

# What can't be written is said before anything runs.
make_bundle
mkdir -p "$folder/results/log.txt"
expect 1
[[ $(wc -l <"$folder/said") == 1 ]] || complain 'it goes on without a log'
TMPDIR=$folder/nowhere expect 1

make_bundle
expect 0 --output=here
says '^test +simt_device_test +passed'
says '^checker +racecheck copying +passed'
says '^benchmark +copying +passed'
says '^copy +4000\.0 GB/s'
says '^attention/forward +300\.0 TFLOP/s +50\.0 % of GEMM, 0\.75 × PyTorch'
says '^test passed: 1'
grep -q '"ratio_to_pytorch": 0.75' "$folder/here/results.json" || complain 'results.json lacks the ratio'

make_bundle
program tests/ops_test <<<'exit 1'
expect 1
says '^test +ops_test +failed'
says '^benchmark +copying +passed'

# A test that finds no GPU where there is one has not passed.
make_bundle
program tests/ops_test <<<'echo "no GPU"; exit 77'
expect 1
says '^test +ops_test +not run: no GPU'

make_bundle
program bin/benchmarks/copying <<<'exit 1'
expect 1
says '^checker +memcheck copying +failed'
says '^copying, what is missing +not measured: failed'
grep -q '"card": "a GPU"' "$folder/results/results.json" || complain 'results.json lacks the machine'

# A report that its benchmark was ended in, and a last line that is no text, cost only what they should say.
make_bundle
program bin/benchmarks/breaking <<'END'
if [[ $1 == --small ]]; then printf 'not\there\xff\n'; exit 77; fi
echo '{"machine": {' >"${1#--output=}"
exit 1
END
expect 1
says '^summary: cannot read the report .*breaking.json'
says '^copy +4000\.0 GB/s'
grep -q '"outcome": "not run: not here' "$folder/results/results.json" || complain 'results.json lacks the outcome'

# A signal ends it and the program that runs.
for signal in INT TERM; do
  make_bundle
  program tests/ops_test <<<"echo \$\$ >'$folder/running'; exec sleep 60"
  (cd "$folder" && exec env --default-signal=INT "$bundle/run.sh") >"$folder/said" 2>&1 &
  script=$!
  until [[ -s $folder/running ]]; do sleep 0.1; done
  kill -s "$signal" "$script"
  SECONDS=0
  wait "$script" && complain "SIG$signal ends it with success"
  ((SECONDS < 30)) || complain "SIG$signal does not end it at once"
  ! kill "$(<"$folder/running")" 2>/dev/null || complain "SIG$signal leaves a program running"
done

# What a toolkit brings is found there, and what is nowhere is named.
make_bundle
printf '%s\n' libnowhere.so libsomewhere.so >"$bundle/libraries"
mkdir -p "$folder/toolkit/lib64"
: >"$folder/toolkit/lib64/libsomewhere.so"
program tests/ops_test <<'END'
[[ :$LD_LIBRARY_PATH: == *:*/toolkit/lib64:* ]]
END
CUDA_HOME=$folder/toolkit expect 0
says '^run.sh: libnowhere.so is not found'
says '^test +ops_test +passed'

# Six seconds of 24 for the tests, three for each.
make_bundle
for test in ops pool train; do program "tests/${test}_test" <<<'sleep 60'; done
expect 1 --seconds=24
says '^test +ops_test +not run to its end: out of time'
says '^test +train_test +not run: out of time \(0 s\)'
says '^benchmark +copying +passed'

# Without compute-sanitizer and PyTorch nothing has failed.
make_bundle
rm "$folder/tools/compute-sanitizer"
if ! compgen -G '/usr/local/cuda*/bin/compute-sanitizer' >/dev/null && ! command -v compute-sanitizer >/dev/null; then
  echo 'import sys; print("no PyTorch"); sys.exit(77)' >"$bundle/sdpa.py"
  expect 0
  says '^checker +memcheck copying +not run: compute-sanitizer is not found'
  says '^sdpa, what is missing +not measured: not run: no PyTorch'
fi

exit "$failed"
