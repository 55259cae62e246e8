#!/usr/bin/env bash
# Looks at what nvcc makes of primitives.cu: each primitive is the instruction that is meant, as often as the kernel
# uses it. Takes the .ptx files of cuda_assembly, and passes over its .usage files.
set -euo pipefail

# The kernel, as its mangled name has it; how many; the instruction.
expected='
Ids            6  st\.global\.u32
Ids            0  bar\.sync
Shuffles       1  shfl\.sync\.idx\.b32
Shuffles       1  shfl\.sync\.up\.b32
Shuffles       1  shfl\.sync\.down\.b32
Shuffles       1  shfl\.sync\.bfly\.b32
Votes          1  vote\.sync\.ballot\.b32
Votes          1  vote\.sync\.any\.pred
Votes          1  vote\.sync\.all\.pred
Mma.*BFloat16  1  mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32
Mma.*7Float16  1  mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32
Mma            2  ld\.global\.v4\.
Mma            1  ld\.global\.v2\.
Mma            1  st\.global\.v4\.
LdmatrixILi1ELb0  1  ldmatrix\.sync\.aligned\.m8n8\.x1\.shared\.b16
LdmatrixILi2ELb0  1  ldmatrix\.sync\.aligned\.m8n8\.x2\.shared\.b16
LdmatrixILi4ELb0  1  ldmatrix\.sync\.aligned\.m8n8\.x4\.shared\.b16
LdmatrixILi1ELb1  1  ldmatrix\.sync\.aligned\.m8n8\.x1\.trans\.shared\.b16
LdmatrixILi2ELb1  1  ldmatrix\.sync\.aligned\.m8n8\.x2\.trans\.shared\.b16
LdmatrixILi4ELb1  1  ldmatrix\.sync\.aligned\.m8n8\.x4\.trans\.shared\.b16
Ldmatrix       1  bar\.warp\.sync
Copies         3  cp\.async\.cg\.shared\.global
Copies         3  cp\.async\.commit_group
Copies         1  cp\.async\.wait_group 2
Copies         1  cp\.async\.wait_group 0
Copies         3  ld\.shared\.v4\.
Copies         3  st\.global\.v4\.
Atomics        2  red\.global\.add\.f32
Atomics        1  red\.shared\.add\.f32
Atomics        2  bar\.sync
Exp2           1  ex2\.approx\.ftz\.f32
Reciprocal     1  rcp\.approx\.ftz\.f32
Packing.*BFloat16  1  cvt\.rn\.bf16x2\.f32
Packing.*7Float16  1  cvt\.rn\.f16x2\.f32
Vectors        1  ld\.global\.v4\.
Vectors        1  st\.shared\.v4\.
Vectors        1  ld\.shared\.v4\.
Vectors        1  st\.global\.v4\.
NamedBarriers  1  bar\.sync [^,;]*, [^,;]*;
NamedBarriers  1  bar\.sync[[:space:]]*0;
TileProduct    16 mma\.sync\.aligned\.m16n8k16
TileProduct    4  ldmatrix\.sync\.aligned\.m8n8\.x4\.shared\.b16
TileProduct    4  ldmatrix\.sync\.aligned\.m8n8\.x4\.trans\.shared\.b16
TileProduct    16 st\.global\.v2\.
'

failed=0
complain() {
  echo "$1: $2"
  failed=1
}

for file in "$@"; do
  case $file in
    *.usage) ;;
    *.ptx)
      if grep -nE '^[[:space:]]*(call|\.func)' "$file"; then complain "$file" "a primitive is not inlined"; fi
      while read -r kernel count instruction; do
        [[ -n $kernel ]] || continue
        # A line for each kernel of that name: how many instructions match.
        counts=$(awk -v kernel="simt5entry.*[0-9]$kernel" -v instruction="$instruction" '
          /^\.visible \.entry/ { name = $0 ~ kernel ? $3 : ""; if (name) count[name] = 0 }
          name && $0 ~ instruction { ++count[name] }
          END { for (name in count) print count[name] }' "$file")
        [[ -n $counts ]] || complain "$file" "no kernel $kernel"
        for found in $counts; do
          ((found == count)) || complain "$file" "$kernel has $found of $instruction, expected $count"
        done
      done <<<"$expected"
      ;;
    *) complain "$file" "is neither .ptx nor .usage" ;;
  esac
done
(($#)) || complain "arguments" "no files to look at"
exit "$failed"
