#include "kernels/ops/kernel_table.h"

#include <utility>

namespace thresher {

KernelTable::KernelTable(std::vector<std::unique_ptr<AttentionKernel>> kernels)
    : kernels_(std::move(kernels)) {}

const AttentionKernel* KernelTable::Find(const AttentionKey& key) const {
  for (const std::unique_ptr<AttentionKernel>& kernel : kernels_) {
    AttentionKey row = kernel->key();
    if (row.head_dim == 0) row.head_dim = key.head_dim;
    if (row == key) return kernel.get();
  }
  return nullptr;
}

}  // namespace thresher
