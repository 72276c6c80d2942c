#include "kernels/cpu/parallel.h"

#include <algorithm>

#include "kernels/cpu/thread_pool.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace thresher {

#ifdef _OPENMP

ThreadTeam::ThreadTeam(int num_threads) : num_threads_(std::max(1, num_threads)) {}
ThreadTeam::~ThreadTeam() = default;

void ThreadTeam::BindCaller() const { omp_set_num_threads(num_threads_); }

void ThreadTeam::Run(Call call, const void* body) {
#pragma omp parallel num_threads(num_threads_)
  {
    // OpenMP may give fewer threads than asked for; every share is run all the same.
    const int stride = omp_get_num_threads();
    for (int thread = omp_get_thread_num(); thread < num_threads_; thread += stride) {
      call(body, thread);
    }
  }
}

#else

ThreadTeam::ThreadTeam(int num_threads) : num_threads_(std::max(1, num_threads)) {
  if (num_threads_ > 1) pool_ = std::make_unique<ThreadPool>(num_threads_);
}
ThreadTeam::~ThreadTeam() = default;

void ThreadTeam::BindCaller() const {}

void ThreadTeam::Run(Call call, const void* body) { pool_->Run(call, body); }

#endif

}  // namespace thresher
