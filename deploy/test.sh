#!/bin/bash
# Builds and tests everything that runs without a GPU. The last line is `N passed, M failed`, with
# `, K skipped` after it if something was skipped; the exit status is 0 only if M is 0.
#   --only STAGE,...   some stages of: install model build unit narrow lint tidy asan tsan integration cuda
#   THRESHER_SKIP_INSTALL=1   leaves the packages alone
#   THRESHER_JOBS=N           compiler processes and test shards at once, default the number of cores
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

all_stages=(install model build unit lint tidy narrow integration asan tsan cuda)
stages=("${all_stages[@]}")
while (($#)); do
  case $1 in
    --only) IFS=, read -r -a stages <<<"${2:?--only needs a list of stages}"; shift 2 ;;
    -h | --help) sed -n '2,6p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "test.sh: unknown argument $1" >&2; exit 2 ;;
  esac
done
for stage in "${stages[@]}"; do
  [[ " ${all_stages[*]} " == *" $stage "* ]] || {
    echo "test.sh: unknown stage $stage; there are ${all_stages[*]}" >&2
    exit 2
  }
done

jobs=${THRESHER_JOBS:-$(nproc)}
results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"

# A stage runs in a subshell under set -e with its output in a log; the summary judges it by its XML
# files and its exit status, where 77 says that it cannot run here.
run_stage() {
  local name=$1 log=$results/$1.log start=$SECONDS status
  mkdir -p "$results/$name"
  echo "== $name"
  (set -e; "stage_$name") >"$log" 2>&1
  status=$?
  # The lines a reader wants to see while it runs; the log keeps the rest.
  grep -E '^(tidy: [0-9]|lint|SKIPPED|\[  FAILED  \]|FAILED)' "$log" | head -n 40
  ((status == 0 || status == 77)) || echo "   failed, see $log"
  printf '%s\t%s\t%s\t%s\n' "$name" $((SECONDS - start)) "$status" "$log" >>"$results/stages.tsv"
}

build() {
  cmake --preset "$1"
  cmake --build --preset "$1" -j "$jobs"
}

# Runs each test binary of a preset in shards, each with its own temporary folder. A shard that ends
# badly without a failed test gets an XML with a failure. The rest of the arguments is a command prefix.
run_unit() {
  local preset=$1 out=$2 status=0 binary
  shift 2
  shopt -s nullglob
  local binaries=(build/"$preset"/tests/*_tests)
  ((${#binaries[@]})) || { echo "no test binary in build/$preset/tests"; return 1; }
  for binary in "${binaries[@]}"; do
    local pids=() shard
    for ((shard = 0; shard < jobs; ++shard)); do
      run_shard "$binary" "$shard" "$out" "$@" &
      pids+=($!)
    done
    for shard in "${pids[@]}"; do wait "$shard" || status=1; done
  done
  return $status
}

run_shard() {
  local binary=$1 shard=$2 out=$3 name log status=0 scratch
  shift 3
  name=$(basename "$binary")_$shard
  log=$out/$name.log
  scratch=$(mktemp -d)
  env GTEST_TOTAL_SHARDS="$jobs" GTEST_SHARD_INDEX="$shard" TEST_TMPDIR="$scratch" TMPDIR="$scratch" \
    "$@" "$binary" --gtest_output="xml:$out/$name.xml" --gtest_brief=1 >"$log" 2>&1 || status=$?
  rm -rf "$scratch"
  cat "$log"
  # A crash leaves no XML; a sanitizer's report at exit leaves one in which all passed.
  if ((status)) && ! grep -qs '<failure' "$out/$name.xml"; then
    python3 tests/lint/junit_failure.py "$out/${name}_exit.xml" "$name" "exit status $status" "$log"
  fi
  return $status
}

stage_install() {
  if [[ ${THRESHER_SKIP_INSTALL:-} == 1 ]]; then
    echo "SKIPPED install: THRESHER_SKIP_INSTALL is 1"
    exit 77
  fi
  bash deploy/install_packages.sh
}
stage_model() { bash deploy/scripts/fetch_model.sh; }
stage_build() { build cpu; }
stage_unit() { run_unit cpu "$results/unit"; }
# The same tests as on a processor without AVX-512 and bf16: oneDNN's cap, and ours, which the tests read.
stage_narrow() {
  run_unit cpu "$results/narrow" env ONEDNN_MAX_CPU_ISA=AVX2 THRESHER_TEST_MAX_ISA=avx2
}
# The real model's numbers, which take a sanitizer a quarter of an hour: the tiny models take the same
# code through the same states, and the stages above run these too.
long_under_sanitizers=BatchInvarianceOnRealModel.*:EngineOnRealModel.ThreeRanksChunksAndACrowdChangeNothing
long_under_sanitizers+=:EngineAllocation.AStepOnTheRealModelAllocatesNothing:RealModel.Gives*
long_under_sanitizers+=:TaskRunTest.EveryChoiceAnswersTheSameTasks:EvaluateTest.*
stage_asan() {
  build cpu-asan
  run_unit cpu-asan "$results/asan" env "GTEST_FILTER=-$long_under_sanitizers" \
    ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
}
stage_tsan() {
  build cpu-tsan
  run_unit cpu-tsan "$results/tsan" env "GTEST_FILTER=-$long_under_sanitizers" \
    TSAN_OPTIONS="halt_on_error=0:second_deadlock_stack=1:suppressions=$PWD/tests/support/tsan_suppressions.txt"
}
stage_lint() {
  local status=0
  python3 tests/lint/lint_test.py --junit "$results/lint/lint_test.xml" || status=1
  bash deploy/scripts/lint.sh --junit "$results/lint/lint.xml" || status=1
  return $status
}
stage_tidy() { bash deploy/scripts/tidy.sh --junit "$results/tidy/tidy.xml"; }
stage_integration() {
  local venv=$PWD/build/venv wanted=tests/integration/requirements.txt
  if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$venv/requirements.txt"
  fi
  THRESHER_BINARY=$PWD/build/cpu/thresher "$venv/bin/python" -m pytest -q -p no:cacheprovider \
    --junitxml="$results/integration/integration.xml" tests/integration
}
stage_cuda() {
  if ! command -v nvcc >/dev/null; then
    echo "SKIPPED cuda: no nvcc on PATH, the CUDA preset is not compiled"
    exit 77
  fi
  build cuda
  # Without a GPU these tests skip and say so.
  build/cuda/cuda_tests --gtest_output="xml:$results/cuda/cuda_tests.xml"
  build/cuda/cuda_gemm_tests --gtest_output="xml:$results/cuda/cuda_gemm_tests.xml"
}

wants() { [[ " ${stages[*]} " == *" $1 "* ]]; }

export PYTHONDONTWRITEBYTECODE=1
# Threads that wait must not spin: shards and ranks share the cores.
export OMP_WAIT_POLICY=passive
: >"$results/stages.tsv"
for stage in "${all_stages[@]}"; do
  wants "$stage" || continue
  if [[ $stage == model ]]; then
    run_stage model
    continue
  fi
  # A test that needs the real model fails without it, instead of skipping.
  if [[ $stage =~ ^(unit|narrow|asan|tsan|integration)$ && -z ${THRESHER_REQUIRE_MODEL:-} ]]; then
    THRESHER_TEST_MODEL=$(bash deploy/scripts/fetch_model.sh 2>/dev/null) || THRESHER_TEST_MODEL=
    export THRESHER_TEST_MODEL THRESHER_REQUIRE_MODEL=1
  fi
  run_stage "$stage"
done
python3 deploy/scripts/test_summary.py "$results"
