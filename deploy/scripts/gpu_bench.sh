#!/bin/bash
# Kernels and single steps on a GPU, each beside its floor: gpu_kernels_bench, gpu_products_bench, and `bench step` of a
# model of Llama-3.1-8B's shape with random weights.
#   gpu_bench.sh OUT [BUNDLE]
#   THRESHER_BENCH_MODEL   default synthetic:llama-3.1-8b
# The floors are those of an H200: reads of 4,390 GB/s and products of 796 TFLOP/s were measured on
# one with other programs; --bandwidth and --tflops say others.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_common.sh"
model=${THRESHER_BENCH_MODEL:-synthetic:llama-3.1-8b}

run_part kernels 150 gpu_kernels.jsonl "$bundle/gpu_kernels_bench" "--commit=$commit"
run_part products 40 gpu_products.jsonl "$bundle/gpu_products_bench" "--commit=$commit"
run_part step 320 step.jsonl "$bundle/thresher" bench step --device cuda --model "$model" \
  --decode 1x1024 8x1024 32x1024 64x1024 128x1024 256x1024 1x32768 8x32768 64x8192 1x131000 \
  --prefill 8192 32768 131072 --token-budget 8192 --bandwidth 4390 --tflops 796 --commit "$commit"

nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv >"$out/gpu_after.csv" || true
echo "steps of $model:"
print_cases "$out/step.jsonl"
finish
