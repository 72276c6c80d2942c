#!/bin/bash
# The lint, as deploy/test.sh runs it. --only includes,words narrows it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 tests/lint/lint.py --build build/cpu "$@"
