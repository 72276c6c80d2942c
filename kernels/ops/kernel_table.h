// The attention kernels a backend has: an explicit list, one row each.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/ops/attention_kernel.h"

namespace thresher {

class KernelTable final {
 public:
  explicit KernelTable(std::vector<std::unique_ptr<AttentionKernel>> kernels);
  // The first row that serves the key (head_dim 0 in a row serves any), or null.
  const AttentionKernel* Find(const AttentionKey& key) const;
  std::span<const std::unique_ptr<AttentionKernel>> rows() const { return kernels_; }

 private:
  std::vector<std::unique_ptr<AttentionKernel>> kernels_;
};

}  // namespace thresher
