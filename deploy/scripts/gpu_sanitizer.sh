#!/bin/bash
# compute-sanitizer over the kernels' conformance tests: memcheck and synccheck on all of them, and
# racecheck on the kernels without bulk copies or transaction barriers, which it does not understand.
#   gpu_sanitizer.sh OUT [BUNDLE]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_common.sh"

tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1 || true)
if [[ -z $tool ]]; then
  echo "SKIPPED: no compute-sanitizer here"
  exit 77
fi

conformance='*AttentionConformance*:*RotateAndAppend*:*TransformerOps*:*Sampling*:*CudaProducts*:CudaBackend.*'
plain='*RotateAndAppend*:*TransformerOps*:*Sampling*'
check() { # TOOL SECONDS FILTER
  run_part "$1" "$2" "$1.log" "$tool" --tool "$1" --error-exitcode 9 --print-limit 20 \
    "$bundle/cuda_tests" --gtest_color=no "--gtest_filter=$3"
  local errors tests
  errors=$(sed -nE 's/.*(ERROR|RACECHECK) SUMMARY: ([0-9]+) .*/\2/p' "$out/$1.log" | tail -1)
  tests=$(grep -c '^\[       OK \]' "$out/$1.log" || true)
  echo "{\"bench\":\"sanitizer\",\"case\":\"$1\",\"commit\":\"$commit\",\"tests\":$tests,\"errors\":${errors:-null}}" \
    >>"$out/sanitizer.jsonl"
  # No test that ran and no summary is no clean run.
  if [[ ${errors:-1} != 0 || $tests == 0 ]]; then failed=1; fi
}
check memcheck 230 "$conformance"
check synccheck 150 "$conformance"
check racecheck 130 "$plain"

cat "$out/sanitizer.jsonl"
grep -hE '^========= (Invalid|Error|Race|Barrier)' "$out"/*check.log | sort | uniq -c | head -10 || true
finish
