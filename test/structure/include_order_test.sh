#!/usr/bin/env bash
# Holds the order of the folders of include/trilith/: each may include those before it here, never one after it.
set -euo pipefail

order="core parallel schedule simt device comm mask kernels ops attention nn plan pipeline optim train trace"

mapfile -t headers < <(cd include && find -L trilith -type f \( -name '*.hpp' -o -name '*.cuh' \) | sort)
if ((${#headers[@]} == 0)); then
  echo "no headers found in include/trilith/"
  exit 1
fi

cd include
awk -v order="$order" '
  function complain(sentence) {
    printf "include/%s:%d: %s\n", FILENAME, FNR, sentence
    failed = 1
  }

  BEGIN {
    count = split(order, folders, " ")
    for (i = 1; i <= count; ++i) place[folders[i]] = i
  }

  FNR == 1 {
    depth = split(FILENAME, part, "/")
    umbrella = depth == 2
    folder = part[2]
    if (!umbrella && !(folder in place)) complain("the folder " folder "/ has no place in the order of the folders: " order)
  }

  /^[ \t]*#[ \t]*include/ {
    target = $0
    if (target ~ /include[ \t]*"/) {
      complain("library headers include with <...>, from trilith/ on: " $0)
      next
    }
    if (!sub(/^[^<]*</, "", target) || !sub(/>.*/, "", target) || target !~ /^trilith\//) next
    depth = split(target, part, "/")
    if (umbrella) next
    if (depth == 2) {
      complain("library headers include what they use, never the umbrella <" target ">")
    } else if (!(part[2] in place)) {
      complain("<" target "> lies in a folder that has no place in the order of the folders: " order)
    } else if (place[part[2]] > place[folder]) {
      complain(folder "/ must not include <" target ">: " part[2] "/ comes after " folder "/ in the order of the folders")
    }
  }

  # Macros of a header are prefixed, or end with it.
  /^[ \t]*#[ \t]*define[ \t]/ {
    macro = $0
    sub(/^[ \t]*#[ \t]*define[ \t]+/, "", macro)
    sub(/[^A-Za-z0-9_].*/, "", macro)
    if (macro !~ /^TRILITH_/) defined[FILENAME ":" FNR] = FILENAME " " macro
  }
  /^[ \t]*#[ \t]*undef[ \t]/ {
    macro = $0
    sub(/^[ \t]*#[ \t]*undef[ \t]+/, "", macro)
    sub(/[^A-Za-z0-9_].*/, "", macro)
    undefined[FILENAME " " macro] = 1
  }

  END {
    for (line in defined) {
      if (!(defined[line] in undefined)) {
        macro = defined[line]
        sub(/.* /, "", macro)
        printf "include/%s: the macro %s leaks: prefix it with TRILITH_, or undefine it in the same header\n", line, macro
        failed = 1
      }
    }
    exit failed
  }
' "${headers[@]}"
