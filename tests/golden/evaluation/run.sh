#!/bin/bash
# The experiments behind README.md of this folder: calibrates the tables it needs and evaluates, one
# JSON file of readings an experiment. About two hours on two cores; what is there already is kept.
# usage: run.sh MODEL.gguf OUT [EXPERIMENT...]; experiments: a b c d e f levels, all without any
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
  "$here/../../../deploy/scripts/fetch_texts.sh" .
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
  local parameters="\"mu\":$3"
  [[ -z $4 ]] || parameters+=",\"beta\":$4"
  echo "$1:{\"prefill\":{\"policy\":\"$2\",$parameters}}|block_lists { $5 }"
}
all_texts=(prose.txt technical.txt code.txt)
