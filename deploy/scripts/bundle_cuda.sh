#!/bin/bash
# Builds the cuda preset and puts its binaries, the plugin and the shared libraries they need into one
# archive for a machine that has nothing of ours: only a driver, CUDA 13 and a C library of Debian 12's
# age or newer. Binaries look for libraries in lib/ beside them. The gpu_*.sh scripts, which run there,
# and the goldens that they need go along.
#   bundle_cuda.sh [ARCHIVE]   default build/cuda/thresher-cuda.tar.xz
#   THRESHER_JOBS=N            compiler processes, default the number of cores
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/cuda
archive=${1:-$build/thresher-cuda.tar.xz}
limit_mib=40

cmake --preset cuda >/dev/null
cmake --build --preset cuda -j "${THRESHER_JOBS:-$(nproc)}" \
  --target thresher thresher_cuda cuda_tests cuda_gemm_tests gpu_kernels_bench gpu_products_bench

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib"
files=("$build/thresher" "$build/thresher_cuda.so" "$build/cuda_tests" "$build/cuda_gemm_tests"
  "$build/tests/gpu_kernels_bench" "$build/gpu_products_bench")
for file in "${files[@]}"; do
  strip -o "$folder/$(basename "$file")" "$file"
done
# The C library and the driver are the machine's own, and cuBLASLt is ten times the size of the rest.
ldd "${files[@]}" | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libcuda|libcublasLt)\.so' |
  xargs -I{} cp -L {} "$folder/lib/"

mkdir "$folder/golden"
cp -r tests/golden/models tests/golden/logits "$folder/golden/"
cp deploy/scripts/gpu_*.sh deploy/scripts/model_parts.sh "$folder/"
git rev-parse --short HEAD >"$folder/COMMIT" 2>/dev/null || echo unknown >"$folder/COMMIT"

mkdir -p "$(dirname "$archive")"
tar -C "$folder" -cJf "$archive" .
bytes=$(stat -c %s "$archive")
echo "$archive: $bytes bytes, $(ls "$folder/lib" | wc -l) libraries"
if ((bytes > limit_mib << 20)); then
  echo "bundle_cuda.sh: the archive is larger than $limit_mib MiB" >&2
  exit 1
fi
