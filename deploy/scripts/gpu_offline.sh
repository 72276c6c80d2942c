#!/bin/bash
# Output tokens a second on a GPU with a model of Llama-3.1-8B's shape and random weights: requests of
# 1000/1000 and 2048/2048 tokens in one process, then the first of these through the server over HTTP
# with streaming, at the same concurrency.
#   gpu_offline.sh OUT [BUNDLE]
#   THRESHER_BENCH_MODEL   default synthetic:llama-3.1-8b
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gpu_common.sh"
model=${THRESHER_BENCH_MODEL:-synthetic:llama-3.1-8b}
budget=8192

offline() { # REQUESTS PROMPT OUTPUT CONCURRENCY SECONDS
  run_part "offline $2/$3" "$5" "offline_$2_$3.jsonl" "$bundle/thresher" bench offline \
    --device cuda --model "$model" --requests "$1" --prompt-tokens "$2" --output-tokens "$3" \
    --concurrency "$4" --token-budget $budget --commit "$commit"
}
offline 512 1000 1000 256 160
offline 192 2048 2048 192 150

# The server chooses free ports and prints its address once it is ready.
"$bundle/thresher" serve --device cuda --model "$model" --http-port 0 --grpc-port 0 \
  --max-model-len 2048 --max-running 256 --token-budget $budget >"$out/serve.log" 2>"$out/serve.err" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
ready_by=$((SECONDS + $(time_for 60)))
until grep -q '^ready:' "$out/serve.log" || ((SECONDS >= ready_by)) || ! kill -0 "$server" 2>/dev/null; do
  sleep 0.2
done
port=$(sed -nE 's|^http://.*:([0-9]+)$|\1|p' "$out/serve.log" | tail -1)
if [[ -n $port ]]; then
  run_part "serve 1000/1000" 150 serve.jsonl "$bundle/thresher" bench serve --port "$port" \
    --concurrency 256 --requests 512 --prompt-tokens 1000 --output-tokens 1000
else
  echo "serve: not ready in time" | tee -a "$out/failures.txt"
  tail -n 5 "$out/serve.err"
  failed=1
fi
kill "$server" 2>/dev/null || true
wait "$server" 2>/dev/null || true

value() { [[ ! -f $out/$1 ]] || sed -nE "s/.*\"$2\": ?([0-9.e+]+).*/\1/p" "$out/$1" | head -1; }
inside=$(value offline_1000_1000.jsonl value) served=$(value serve.jsonl output_tokens_per_s)
for file in offline_1000_1000.jsonl offline_2048_2048.jsonl; do print_cases "$out/$file"; done
printf '  %-28s %10.3f output tokens/s\n' serve_1000_1000_at_256 "${served:-0}"
awk -v a="${served:-0}" -v b="${inside:-0}" 'BEGIN { if (b > 0) printf "  served over offline: %.3f\n", a / b }'
finish
