#!/usr/bin/env bash
# Runs the README's line for users without Bazel: the first line in a fenced block that begins with "g++ ". Where the
# next line of the block begins with "./", runs that too.
set -euo pipefail

mapfile -t lines < <(awk '
  /^[ \t]*```/ { fenced = !fenced; if (found) exit; next }
  found { if ($0 ~ /^\.\//) print; exit }
  fenced && /^g\+\+ / { print; found = 1 }
' README.md)
if ((${#lines[@]} == 0)); then
  echo 'README.md: no fenced block holds a line that begins with "g++ "'
  exit 1
fi

folder=$(mktemp -d "$TEST_TMPDIR/readme.XXXXXX")
ln -s "$PWD/include" "$PWD/examples" "$folder"
cd "$folder"
for line in "${lines[@]}"; do
  echo "README.md: $line"
  bash -c "$line"
done

# The compiler's line must leave a program.
if [[ -z $(find . -maxdepth 1 -type f -executable) ]]; then
  echo "README.md: the line above made no program"
  exit 1
fi
