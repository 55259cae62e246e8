#!/usr/bin/env bash
# Builds all tests and benchmarks that need a GPU into one archive, for a machine that has a GPU but neither Bazel nor
# the libraries that this project is built with:
#
#   bench/gpu/bundle.sh [--architecture=90] [--output=trilith_gpu.tar.gz] [-- BAZEL'S STARTUP OPTIONS…]
#
# There, `tar -xzf trilith_gpu.tar.gz && trilith_gpu/run.sh` runs all of it (run.sh). All libraries but the C library
# and cuBLASLt are linked statically; run.sh looks for cuBLASLt. The archive must stay below 60 MB.
set -euo pipefail

architecture=90
output=trilith_gpu.tar.gz
while (($#)); do
  case $1 in
    --architecture=?*) architecture=${1#*=} ;;
    --output=?*) output=${1#*=} ;;
    --)
      shift
      break
      ;;
    *)
      echo "bundle.sh: cannot use $1: give --architecture=90, --output=FILE or -- and Bazel's startup options" >&2
      exit 1
      ;;
  esac
  shift
done
output=$(realpath -m -- "$output")
if [[ -d $output || ! -w ${output%/*}/ ]]; then
  echo "bundle.sh: cannot write $output: give --output=FILE in a folder that exists" >&2
  exit 1
fi
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
if [[ $PWD == *' '* ]]; then
  echo "bundle.sh: Bazel does not build in $PWD: clone into a folder without spaces in its path" >&2
  exit 1
fi
bazel=(./bazelw "$@")

# Where the linker finds these first, it looks no further for shared ones. Nothing here computes with oneDNN, of which
# there is no static library.
static=$PWD/.cache/static
mkdir -p "$static"
for library in libboost_context.a libgomp.a libstdc++.a; do ln -sf "$(g++ -print-file-name="$library")" "$static/"; done
ar rc "$static/libdnnl.a"

options=(
  "--//bazel:cuda_architectures=$architecture"
  "--//bench/gpu:architectures=$architecture"
  --dynamic_mode=off
  --copt=-march=x86-64-v3
  "--linkopt=-L$static"
  --linkopt=-static-libgcc
)
# needing_gpu KIND PATTERN: the labels.
needing_gpu() {
  "${bazel[@]}" query --noshow_progress "attr(tags, requires-gpu, kind($1, $2))" | sort
}
mapfile -t tests < <(needing_gpu cc_test //...)
wait $!  # for its exit status, which ends this script
mapfile -t benchmarks < <(needing_gpu cc_binary //bench/gpu:all)
wait $!
programs=(//bench/gpu:machine //bench/gpu:summary)
if ((${#tests[@]} == 0 || ${#benchmarks[@]} == 0)); then
  echo "bundle.sh: Bazel finds no test or no benchmark with the tag requires-gpu" >&2
  exit 1
fi
"${bazel[@]}" build "${options[@]}" "${tests[@]}" "${benchmarks[@]}" "${programs[@]}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/trilith_gpu
mkdir -p "$root/tests" "$root/bin/benchmarks"
built=$("${bazel[@]}" info bazel-bin 2>/dev/null)

# add LABEL FILE
add() {
  local file=${1#//}
  strip -o "$2" -- "$built/${file/://}"
}
for test in "${tests[@]}"; do
  name=${test#//}
  name=${name#test/}
  add "$test" "$root/tests/${name//[\/:]/_}"
done
for benchmark in "${benchmarks[@]}"; do add "$benchmark" "$root/bin/benchmarks/${benchmark#*:}"; done
for program in "${programs[@]}"; do add "$program" "$root/bin/${program#*:}"; done
cp bench/gpu/run.sh bench/gpu/sdpa.py "$root/"

# What the programs load: the C library's own files, and what run.sh looks for.
for file in "$root"/bin/* "$root"/bin/benchmarks/* "$root"/tests/*; do
  if [[ -f $file ]]; then readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; fi
done | sort -u >"$folder/needed"
grep '^libcublasLt\.so' "$folder/needed" >"$root/libraries"
if grep -vE '^(lib(c|m|dl|rt|pthread)\.so\.|ld-linux|libcublasLt\.so)' "$folder/needed" >"$folder/others"; then
  echo "bundle.sh: programs would load $(paste -sd ' ' "$folder/others") there: add static libraries to $static" >&2
  exit 1
fi

tar -C "$folder" -czf "$folder/archive" trilith_gpu
bytes=$(stat -c %s "$folder/archive")
if ((bytes >= 60000000)); then
  echo "bundle.sh: the archive is not below 60 MB: build for one architecture, or take kernels out of benchmarks" >&2
  exit 1
fi
mv -- "$folder/archive" "$output"
printf '%s: %d tests, %d benchmarks, %d.%d MB\n' "$output" "${#tests[@]}" "${#benchmarks[@]}" $((bytes / 1000000)) \
  $((bytes / 100000 % 10))
