// Kernels that start while the one before them in the stream still runs (programmatic dependent
// launch): what they do before WaitForEarlierKernels overlaps with its end. PTX ISA,
// griddepcontrol.
#pragma once

#include <cuda_runtime.h>

namespace thresher {

// Every kernel that LaunchOverlapped launches calls this before it reads what earlier kernels write
// or writes anything, in every block: kernels behind it count on it. All earlier work is then done.
__device__ inline void WaitForEarlierKernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Once every block has called it or ended, the stream's next kernel may start if it is launched so.
__device__ inline void LetLaterKernelsStart() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

struct OverlappedShape {
  dim3 grid, block;
  unsigned cluster = 1;  // blocks that share their memory, along x
  std::size_t shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
cudaError_t LaunchOverlapped(void (*kernel)(Parameters...), const OverlappedShape& shape,
                             cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {shape.cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster == 1 ? 1 : 2;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace thresher
