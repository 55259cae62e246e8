#!/usr/bin/env bash
# The kernel of cuda.md gives what the page says; without its barrier, the error that the page says.
# Takes the two programs and the page.
set -euo pipefail

right=$1 wrong=$2 page=$3

printed=$("$right")
grep -qxF "  // $printed" "$page" || {
  echo "the program prints \"$printed\", which cuda.md does not say"
  exit 1
}

if error=$("$wrong" 2>&1); then
  echo "the program without its barrier ends well"
  exit 1
fi
# The page names the file without its folder.
error=$(sed -n -e 's/^ *what():  //' -e 's|, [^ ]*/row_sums.cc:|, row_sums.cc:|' -e '/^kernel/p' <<<"$error")
grep -qxF "$error" "$page" || {
  echo "without its barrier the program says \"$error\", which cuda.md does not say"
  exit 1
}
