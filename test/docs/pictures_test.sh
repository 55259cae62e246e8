#!/usr/bin/env bash
# Every picture and figure of a page is what the command above it prints. In a fenced block, lines that begin with
# "$ ./bazelw run //examples:draw_schedule -- " are commands, and what follows each is its output.
set -u

schedule=$PWD/$1
page=$PWD/$2
folder=$(mktemp -d "$TEST_TMPDIR/pictures.XXXXXX")
cd "$folder" || exit 1

awk -v prefix='$ ./bazelw run //examples:draw_schedule -- ' '
  /^```/ { fenced = !fenced; shown = 0; next }
  !fenced { next }
  index($0, prefix) == 1 {
    ++count
    shown = 1
    print substr($0, length(prefix) + 1) > (count ".command")
    printf "" > (count ".expected")
    next
  }
  shown { print > (count ".expected") }
' "$page"

failures=0
for command in *.command; do
  expected=${command%.command}.expected
  if ! timeout 60 bash -c "\"$schedule\" $(cat "$command")" > actual.txt 2> err.txt ||
    ! diff "$expected" actual.txt; then
    echo "FAILED: $(cat "$command")"
    cat err.txt
    failures=$((failures + 1))
  fi
done

count=$(find . -name '*.command' | wc -l)
echo "$count commands, $failures failures"
[ "$failures" -eq 0 ] && [ "$count" -gt 10 ]
