#!/bin/bash
# From a fresh Debian 12 machine to a served model: installs the packages, builds, fetches
# SmolLM2-135M-Instruct, serves it, streams one chat over HTTP and one generation over gRPC, then
# keeps serving. Run again, it only serves.
#   --once         stop the server at the end; exit 0 only if both texts are non-empty
#   --model PATH   serve this Hugging Face folder or GGUF file instead
#   --port N       HTTP port, default 8000; gRPC takes the one after it
#   THRESHER_JOBS=N   compiler processes, default the number of cores
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

once=0 model="" port=8000
while (($#)); do
  case $1 in
    --once) once=1; shift ;;
    --model) model=${2:?--model needs a path}; shift 2 ;;
    --port) port=${2:?--port needs a number}; shift 2 ;;
    -h | --help) sed -n '2,9p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "quickstart: unknown argument $1" >&2; exit 2 ;;
  esac
done
[[ $port =~ ^[0-9]+$ ]] && ((port >= 1 && port <= 65534)) || {
  echo "quickstart: --port is '$port'; it must be from 1 to 65534" >&2
  exit 2
}

step() { echo "== $*"; }

step "packages"
bash deploy/install_packages.sh
step "build"
# Only the first time: ninja runs CMake again itself when its files change.
[[ -f build/cpu/build.ninja ]] || cmake --preset cpu
cmake --build --preset cpu -j "${THRESHER_JOBS:-$(nproc)}" --target thresher
table=()
if [[ -z $model ]]; then
  step "model"
  model=$(bash deploy/scripts/fetch_model.sh)
  table=(--threshold-table deploy/config/smollm2-135m.thr)
fi

step "serve $model"
url=http://127.0.0.1:$port
build/cpu/thresher serve --model "$model" "${table[@]}" --http-port "$port" \
  --grpc-port "$((port + 1))" &
server=$!
answer=$(mktemp)
stop() {
  rm -f "$answer"
  kill -TERM "$server" 2>/dev/null && wait "$server" 2>/dev/null
  return 0
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for ((i = 0; ; ++i)); do
  curl -fs "$url/readyz" >/dev/null && break
  kill -0 "$server" 2>/dev/null || { echo "quickstart: the server ended" >&2; exit 1; }
  ((i < 3000)) || { echo "quickstart: not ready after five minutes" >&2; exit 1; }
  sleep 0.1
done

step "one chat over HTTP"
curl -sN --fail-with-body "$url/v1/chat/completions" -H 'content-type: application/json' -d '{
  "stream": true, "stream_options": {"include_usage": true}, "temperature": 0, "max_tokens": 64,
  "messages": [{"role": "user", "content": "In two sentences: why is the sky blue?"}]}' |
  python3 -u -c '
import json, sys, time
start = first = None
for line in sys.stdin:
    if not line.startswith("data: {"):
        continue
    chunk = json.loads(line[6:])
    now = time.monotonic()
    start = start or now
    if chunk["choices"]:
        text = chunk["choices"][0]["delta"].get("content") or ""
        if text:
            first = first or now
            print(text, end="", flush=True)
            open(sys.argv[1], "a").write(text)
    else:
        tokens = chunk["usage"]["completion_tokens"]
        rate = (tokens - 1) / (now - first) if first and now > first else 0
        print(f"\n({tokens} tokens, {rate:.0f} tokens/s)")
' "$answer"
chat=$(<"$answer")

step "one generation over gRPC"
build/cpu/thresher generate --server "127.0.0.1:$((port + 1))" \
  --prompt "The sky is blue because" --max-tokens 48 | tee "$answer"
generated=$(<"$answer")

for text in "$chat" "$generated"; do
  [[ -n ${text//[[:space:]]/} ]] || { echo "quickstart: an answer was empty" >&2; exit 1; }
done
echo
echo "ready: $url (OpenAI API at $url/v1, metrics at $url/metrics), gRPC at 127.0.0.1:$((port + 1))"
if ((once)); then exit 0; fi
echo "Ctrl-C stops it"
wait "$server"
