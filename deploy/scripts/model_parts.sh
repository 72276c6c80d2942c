#!/bin/bash
# Cuts a model's file into parts that can be carried one by one, and puts them together again; hashes
# tell a part that was damaged or is missing.
#   model_parts.sh split MODEL FOLDER [MIB]   parts of at most MIB, default 15
#   model_parts.sh join FOLDER MODEL
set -euo pipefail

usage() {
  sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

hash_of() { sha256sum "$1" | cut -d' ' -f1; }

split_model() { # MODEL FOLDER MIB
  mkdir -p "$2"
  if compgen -G "$2/part.*" >/dev/null; then
    echo "model_parts.sh: $2 holds parts already" >&2
    exit 1
  fi
  split -b "${3}M" -d -a 4 "$1" "$2/part."
  (cd "$2" && sha256sum part.* >PARTS.sha256)
  hash_of "$1" >"$2/WHOLE.sha256"
  echo "$2: $(wc -l <"$2/PARTS.sha256") parts"
}

join_model() { # FOLDER MODEL
  (cd "$1" && sha256sum --quiet -c PARTS.sha256)
  local whole=$2.incomplete
  # In the order of their names, which is that of the file.
  (cd "$1" && cut -d' ' -f3 PARTS.sha256 | xargs cat) >"$whole"
  if [[ $(hash_of "$whole") != "$(cat "$1/WHOLE.sha256")" ]]; then
    rm -f "$whole"
    echo "model_parts.sh: the parts of $1 do not make the model they were cut from" >&2
    exit 1
  fi
  mv "$whole" "$2"
  echo "$2"
}

case ${1:-} in
  split) (($# == 3 || $# == 4)) || usage; split_model "$2" "$3" "${4:-15}" ;;
  join) (($# == 3)) || usage; join_model "$2" "$3" ;;
  *) usage ;;
esac
