#!/bin/bash
# The experiments behind README.md of this folder: calibrates the tables it needs and evaluates, one
# JSON file of readings an experiment. Hours on two cores; what is there already is kept.
# usage: run.sh MODEL.gguf OUT [EXPERIMENT...]; experiments: a b c e f levels, all without any
set -euo pipefail
model=$(realpath "${1:?usage: run.sh MODEL.gguf OUT [EXPERIMENT...]}")
mkdir -p "${2:?usage: run.sh MODEL.gguf OUT [EXPERIMENT...]}/texts"
out=$(realpath "$2")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
thresher=$here/../../../build/cpu/thresher
wanted=("${@:3}")
((${#wanted[@]})) || wanted=(a b c e f levels)
wants() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

# Calibrated on X.txt, chosen on X.tune.txt, reported on X.report.txt.
cd "$out/texts"
if [[ ! -e prose.report.txt ]]; then
  "$here/../../../deploy/scripts/fetch_texts.sh" "$PWD"
  for domain in prose technical code; do
    python3 - "$domain" <<'PYTHON'
import pathlib, sys
domain = sys.argv[1]
text = pathlib.Path(f"{domain}.held_out.txt").read_text()
middle = text.find("\n", len(text) // 2) + 1
pathlib.Path(f"{domain}.tune.txt").write_text(text[:middle])
pathlib.Path(f"{domain}.report.txt").write_text(text[middle:])
PYTHON
  done
fi

calibrate() {
  local table=../$1.thr
  shift
  [[ -e $table ]] || "$thresher" calibrate --model "$model" --out "$table" "$@"
}
evaluate() {
  local name=../$1
  shift
  [[ -s $name.json ]] || "$thresher" evaluate --model "$model" --shadow-interval 0 --json "$name.json" --html "$name.html" "$@"
}
top_theta() { echo "$1:{\"decode\":{\"policy\":\"top_theta\",\"k\":$2}}|top_theta { $3 }"; }
blocks() {
  local parameters=""
  [[ -z $3 ]] || parameters+=",\"mu\":$3"
  [[ -z $4 ]] || parameters+=",\"beta\":$4"
  echo "$1:{\"prefill\":{\"policy\":\"$2\"$parameters}}|block_lists { $5 }"
}
all_texts=(prose.txt technical.txt code.txt)

if wants a; then
  calibrate all --text "${all_texts[@]}" --windows 20 --rows-per-length 32
  for domain in prose technical code; do
    choices=()
    for placement in post pre centred; do
      for k in 64 128 256 512; do choices+=("$(top_theta $placement$k $k "placement: ${placement^^}")"); done
    done
    evaluate "a_$domain" --text "$domain.tune.txt" --threshold-table ../all.thr --attention "${choices[@]}"
  done
fi

if wants b; then
  for own in prose technical code; do
    calibrate "$own" --text "$own.txt" --windows 6
    for domain in prose technical code; do
      evaluate "b_${own}_on_$domain" --text "$domain.tune.txt" --threshold-table "../$own.thr" \
        --attention "$(top_theta post256 256 'placement: POST')"
    done
  done
fi

# Without the limit on how far beyond its table a row may be thresholded, which (c) is to find.
three_placements() {
  for placement in pre centred post; do
    top_theta ${placement}256 256 "placement: ${placement^^} max_length_factor: 0"
  done
}
if wants c; then
  calibrate one_k --text "${all_texts[@]}" --windows 24 --max-length 1024
  calibrate one_k_x2 --text "${all_texts[@]}" --windows 24 --max-length 1024 --context-factor 2
  mapfile -t choices < <(three_placements)
  for table in one_k one_k_x2; do
    [[ -e ../${table}_nearest.thr ]] || python3 "$here/edit_table.py" nearest "../$table.thr" "../${table}_nearest.thr"
  done
  for rule in "" _nearest; do
    for domain in prose code; do
      evaluate "c8${rule:-_slope}_$domain" --text "$domain.tune.txt" --threshold-table "../one_k$rule.thr" --attention "${choices[@]}"
    done
    evaluate "c15${rule:-_slope}" --text prose.tune.txt --context-factor 2 --window-tokens 15360 \
      --threshold-table "../one_k_x2$rule.thr" --attention "${choices[@]}"
  done
fi

if wants e; then
  calibrate all --text "${all_texts[@]}" --windows 20 --rows-per-length 32
  of() { top_theta "$1" 128 "placement: POST $2"; }
  evaluate e_prose --text prose.tune.txt --threshold-table ../all.thr --attention \
    "$(of exact_dropped '')" "$(of exact_all 'value_mean: ALL')" \
    "$(of none_off 'denominator: NONE value_mean: OFF')" "$(of none_dropped 'denominator: NONE')" \
    "$(of exact_dropped_own 'promotes: false')" "$(of none_off_own 'promotes: false denominator: NONE value_mean: OFF')" \
    "$(of exp_1_own 'promotes: false denominator: EXPONENTIAL gamma: 1')" \
    "$(of exp_0.3_own 'promotes: false denominator: EXPONENTIAL gamma: 0.3')" \
    "$(of exp_0.1_own 'promotes: false denominator: EXPONENTIAL gamma: 0.1')" \
    "$(of exp_0.03_own 'promotes: false denominator: EXPONENTIAL gamma: 0.03')"
  means=()
  for k in 128 320 768; do
    for mean in dropped all; do means+=("$(top_theta $mean$k $k "value_mean: ${mean^^}")"); done
  done
  for domain in prose technical code; do
    evaluate "e_mean_$domain" --text "$domain.tune.txt" --threshold-table ../all.thr --attention "${means[@]}"
  done
  [[ -e ../all_line.thr ]] || python3 "$here/edit_table.py" line ../all.thr ../all_line.thr
  evaluate e_line_prose --text prose.tune.txt --threshold-table ../all_line.thr --attention \
    "$(top_theta pre128 128 'placement: PRE')" "$(top_theta centred128 128 'placement: CENTRED')" \
    "$(top_theta post128 128 'placement: POST')"
fi

if wants f; then
  for factor in 2 4; do
    calibrate one_k_x$factor --text "${all_texts[@]}" --windows 24 --max-length 1024 --context-factor $factor
  done
  whole_prompt() {
    echo --text prose.tune.txt --context-factor "$1" --window-tokens $((8192 * $1)) --prompt-tokens $((8192 * $1)) \
      --threshold-table "../one_k_x$1.thr"
  }
  paper() { echo "form: PAPER short_bias: 0 long_bias: 0 dense_below: 64 long_from: 129 k0_floor: $1"; }
  interval() { echo "$1:{\"prefill\":{\"policy\":\"interval\",\"row_from\":$2,\"row_to\":$3,\"block_from\":$4,\"block_to\":$5}}"; }
  # shellcheck disable=SC2046  # the words are flags
  evaluate f16_forms $(whole_prompt 2) --attention \
    "$(blocks uniform uniform '' '' '')" "$(blocks tpd stem 0.7 0 '')" "$(blocks oam_calibrated stem 0.7 0.2 '')" \
    "$(blocks oam_raw stem 0.7 0.2 'value_term: RAW')" "$(blocks oam_centred stem 0.7 0.2 'value_term: CENTRED')" \
    "$(blocks oracle oracle 0.7 '' '')" "$(blocks random random 0.7 '' '')"
  # shellcheck disable=SC2046
  evaluate f16_budgets $(whole_prompt 2) --attention \
    "$(blocks mu0.5 stem 0.5 0.2 '')" "$(blocks mu1 stem 1 0.2 '')" "$(blocks beta0.5 stem 0.7 0.5 '')" \
    "$(blocks last_dense8 stem 0.7 0.2 'last_dense_blocks: 8')" "$(blocks paper_floor41 stem 0.7 0.2 "$(paper 41)")" \
    "$(blocks paper_floor54 stem 0.7 0.2 "$(paper 54)")" "$(blocks paper_floor80 stem 0.7 0.2 "$(paper 80)")" \
    "$(blocks paper_floor1 stem 0.7 0.2 "$(paper 1)")"
  # shellcheck disable=SC2046
  evaluate f32_forms $(whole_prompt 4) --attention \
    "$(blocks uniform uniform '' '' '')" "$(blocks oam_calibrated stem 0.7 0.2 '')"
  evaluate f8_intervals --text prose.tune.txt --prompt-tokens 8192 --attention \
    "$(interval block0_all_rows 1 64 0 1)" "$(interval block0_late_rows 32 64 0 1)" \
    "$(interval early_rows 16 32 4 12)" "$(interval late_rows 32 64 4 12)"
fi

if wants levels; then
  calibrate all --text "${all_texts[@]}" --windows 20 --rows-per-length 32
  for domain in prose technical code; do
    evaluate "levels_$domain" --text "$domain.report.txt" --windows 2 --threshold-table ../all.thr --attention light balanced aggressive
  done
fi
