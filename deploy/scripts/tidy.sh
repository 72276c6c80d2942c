#!/bin/bash
# clang-tidy over the product's sources, as deploy/test.sh does. Configures the cpu preset if need be.
# Arguments narrow the run: deploy/scripts/tidy.sh engine/text/
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -f build/cpu/compile_commands.json ]] || cmake --preset cpu >/dev/null
# The generated headers of proto/ must be there before a source that includes them is read.
if grep -q thresher_proto build/cpu/build.ninja; then ninja -C build/cpu thresher_proto >/dev/null; fi
exec python3 tests/lint/tidy.py --build build/cpu "$@"
