#!/bin/bash
# Whether a GPU computes what it should: the kernels' conformance and whole models against goldens
# (cuda_gemm_tests, cuda_tests), and that the binary generates the same text twice. With THRESHER_TEST_MODEL the tests
# of the real model run too, and its greedy text is shown beside the CPU's.
#   gpu_correctness.sh OUT [BUNDLE]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_common.sh"

run_part cuda_gemm_tests 60 cuda_gemm_tests.log "$bundle/cuda_gemm_tests" --gtest_color=no
run_part cuda_tests 420 cuda_tests.log "$bundle/cuda_tests" --gtest_color=no

generate() { # DEVICE MODEL
  "$bundle/thresher" generate --device "$1" --model "$2" --prompt "The sky is blue because" \
    --max-tokens 48 --temperature 0 --kv-cache-tokens 4096 --quiet
}
export -f generate
export bundle
for model in synthetic:tiny ${THRESHER_TEST_MODEL:-}; do
  name=$(basename "$model" | tr : _)
  for run in cuda_1 cuda_2 cpu; do
    run_part "generate $name $run" 60 "$name.$run.txt" bash -c 'generate "$@"' - "${run%_*}" "$model"
  done
  if ! cmp -s "$out/$name.cuda_1.txt" "$out/$name.cuda_2.txt"; then
    echo "$name: two greedy runs differ" | tee -a "$out/failures.txt"
    failed=1
  fi
  # Not a failure: where two tokens are nearly tied the devices may part.
  same=$(cmp -s "$out/$name.cuda_1.txt" "$out/$name.cpu.txt" && echo true || echo false)
  echo "{\"bench\":\"correctness\",\"case\":\"$name\",\"commit\":\"$commit\",\"greedy_text_equals_cpu\":$same}" \
    >>"$out/correctness.jsonl"
done

passed=$(grep -c '^\[       OK \]' "$out/cuda_tests.log" || true)
bad=$(grep -c '^\[  FAILED  \].*(' "$out/cuda_tests.log" || true)
skipped=$(grep -c '^\[  SKIPPED \].*(' "$out/cuda_tests.log" || true)
echo "{\"bench\":\"correctness\",\"case\":\"cuda_tests\",\"commit\":\"$commit\",\"passed\":$passed,\"failed\":$bad,\"skipped\":$skipped}" \
  >>"$out/correctness.jsonl"
echo "cuda_tests: $passed passed, $bad failed, $skipped skipped"
grep '^\[  FAILED  \].*(' "$out/cuda_tests.log" | head -20 || true
((passed > 0)) || failed=1
cat "$out/correctness.jsonl"
finish
