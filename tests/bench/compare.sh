#!/bin/bash
# Measures the engine and llama.cpp in turn on the same cases and writes the JSON lines that the table
# in README.md is made from. Wants a quiet machine.
#   compare.sh MODEL.gguf OUT_DIR
# Makes an environment with llama-cpp-python and a Q4_0 file of the same weights under build/peer.
# The avx2 case narrows our side alone: llama.cpp picks the widest instructions the machine has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
model=${1:?a GGUF file} out=${2:?a folder for the results}
python=${THRESHER_PEER_PYTHON:-build/peer/venv/bin/python}
mkdir -p build/peer "$out"
if [[ ! -x $python ]]; then
  python3 -m venv build/peer/venv
  "$python" -m pip install --quiet llama-cpp-python==0.3.36
fi
peer() { "$python" tests/bench/peer_llama_cpp.py "$@"; }
[[ -f build/peer/q4_0.gguf ]] || peer --model "$model" --quantize build/peer/q4_0.gguf
commit=$(git rev-parse --short HEAD)
ours() { build/cpu/thresher bench offline --commit "$commit" "$@"; }
for pair in "as_given:$model" "q4_0:build/peer/q4_0.gguf"; do
  name=${pair%%:*} file=${pair#*:}
  {
    ours --model "$file"
    peer --model "$file" --runs 5
  } | sed "s#$file#MODEL#g" >"$out/offline_$name.jsonl"
done
{
  ONEDNN_MAX_CPU_ISA=AVX2 ours --model "$model" --cpu-isa avx2
  grep '"engine": "llama.cpp"' "$out/offline_as_given.jsonl"
} | sed "s#$model#MODEL#g" >"$out/offline_avx2.jsonl"
build/cpu/thresher bench scheduler --commit "$commit" >"$out/scheduler.jsonl"
build/cpu/tests/sse_streams_bench >"$out/sse_streams.jsonl"
python3 tests/bench/table.py "$out"
