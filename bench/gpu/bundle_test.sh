#!/usr/bin/env bash
# bundle.sh, with a stand-in for Bazel: what it refuses, and where it works. Takes bundle.sh.
set -uo pipefail

bundle=$(realpath "$1")
failed=0

# A clone with nothing in it, whose Bazel does what is on standard input.
clone() {
  mkdir -p "$1/bench/gpu"
  cp "$bundle" "$1/bench/gpu/bundle.sh"
  { echo '#!/usr/bin/env bash' && cat; } >"$1/bazelw"
  chmod +x "$1/bazelw"
}

# expect STATUS SENTENCE CLONE ARGUMENTS…
expect() {
  local status=$1 sentence=$2 said actual
  said=$(cd "$TEST_TMPDIR" && "$3/bench/gpu/bundle.sh" "${@:4}" 2>&1)
  actual=$?
  if ((actual != status)) || [[ $said != "$sentence" ]]; then
    printf '%s\n' "bundle.sh in $3 ends with status $actual, and says:" "$said" "but must, with $status, say:" "$sentence"
    failed=1
  fi
}

cd "$TEST_TMPDIR" || exit 1
clone clone <<<''
clone 'a clone' <<<''
clone broken <<<'echo "broken" >&2; exit 7'
ln -s clone 'a name'
ln -s 'a clone' name
here=$(pwd -P)
nothing='bundle.sh: Bazel finds no test or no benchmark with the tag requires-gpu'
spaces="bundle.sh: Bazel does not build in $here/a clone: clone into a folder without spaces in its path"

expect 1 "$nothing" clone
expect 1 "$nothing" clone "--output=an archive.tar.gz"
expect 1 "$nothing" 'a name'
expect 1 "$spaces" 'a clone'
expect 1 "$spaces" name
expect 7 'broken' broken
expect 1 'bundle.sh: cannot use --output=: give --architecture=90, --output=FILE or -- and Bazel'"'"'s startup options' \
  clone --output=
expect 1 "bundle.sh: cannot write $here/nowhere/archive: give --output=FILE in a folder that exists" \
  clone --output=nowhere/archive
expect 1 "bundle.sh: cannot write $here/clone: give --output=FILE in a folder that exists" clone --output=clone

exit "$failed"
