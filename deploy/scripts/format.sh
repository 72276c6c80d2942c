#!/bin/bash
# Formats every C++ file of the tree in place with the clang-format that the lint uses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tool=$(command -v clang-format-14 || command -v clang-format)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh' |
  xargs -0 --no-run-if-empty "$tool" -i
