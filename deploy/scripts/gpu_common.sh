# Sourced by the gpu_*.sh scripts: where the bundle and the results lie, time limits, the summary.
#   usage: gpu_<name>.sh OUT [BUNDLE]
# OUT is made if it is not there and gets the results. BUNDLE is what bundle_cuda.sh packed, unpacked;
# by default the folder of the script, which is in the bundle.
if (($# < 1 || $# > 2)); then
  echo "usage: $(basename "$0") OUT [BUNDLE]" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
bundle=$(cd "${2:-$(dirname "${BASH_SOURCE[0]}")}" && pwd)
commit=$(cat "$bundle/COMMIT" 2>/dev/null || echo unknown)
export THRESHER_TEST_GOLDEN=$bundle/golden
# Each script ends by itself before a lease of ten minutes does.
deadline=$((SECONDS + ${THRESHER_GPU_SECONDS:-520}))
failed=0
rm -f "$out"/*.jsonl "$out/failures.txt"

if [[ ! -x $bundle/thresher ]]; then
  echo "$(basename "$0"): $bundle holds no bundle" >&2
  exit 2
fi
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >"$out/gpus.txt" 2>&1; then
  echo "SKIPPED: no GPU here"
  exit 77
fi

# Seconds that a part may take: what is left, at most $1.
time_for() {
  local left=$((deadline - SECONDS))
  ((left < 1)) && left=1
  echo $((left < $1 ? left : $1))
}

# run_part NAME SECONDS FILE COMMAND...: standard output to FILE, errors to FILE.err. A part that fails
# or does not end in time fails the script, which goes on with the next.
run_part() {
  local name=$1 limit file=$out/$3 start=$SECONDS status=0
  limit=$(time_for "$2")
  shift 3
  timeout -k 5 "$limit" "$@" >"$file" 2>"$file.err" || status=$?
  if ((status == 124 || status == 137)); then
    echo "$name: not done within $limit s" | tee -a "$out/failures.txt"
    failed=1
  elif ((status != 0)); then
    echo "$name: exit status $status; the end of $(basename "$file").err:" | tee -a "$out/failures.txt"
    tail -n 5 "$file.err"
    failed=1
  fi
  echo "$name: $((SECONDS - start)) s"
}

# Case, value, unit and share of the floor of each JSON line of a file, if it is there.
print_cases() {
  [[ -s $1 ]] || return 0
  sed -nE 's/.*"case": ?"([^"]*)".*"value": ?([-0-9.e+]+),"unit": ?"([^"]*)".*/\1 \2 \3 &/p' "$1" |
    while read -r name value rest; do
      local unit ratio
      unit=$(sed -nE 's/.*"unit": ?"([^"]*)".*/\1/p' <<<"$rest")
      ratio=$(sed -nE 's/.*"ratio_to_floor": ?([-0-9.e+]+).*/\1/p' <<<"$rest")
      printf '  %-28s %10.3f %-8s %s\n' "$name" "$value" "$unit" "${ratio:+$(printf '%.2f of the floor' "$ratio")}"
    done
}

# The verdict, last.
finish() {
  if ((failed)); then
    echo "FAILED: $(basename "$0" .sh) in $SECONDS s"
    exit 1
  fi
  echo "PASSED: $(basename "$0" .sh) in $SECONDS s"
}
