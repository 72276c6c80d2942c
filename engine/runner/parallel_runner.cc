#include "engine/runner/parallel_runner.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/runner/worker_group.h"

namespace thresher {
namespace {

class ParallelRunner final : public ModelRunner {
 public:
  explicit ParallelRunner(int num_ranks)
      : groups_(CreateInProcessGroup(num_ranks)),
        backends_(groups_.size()),
        ranks_(groups_.size()),
        workers_(num_ranks, [this] { groups_[0]->Abort(); }) {}

  absl::Status Load(const ModelFiles& files, const ParallelRunnerOptions& options,
                    const LoadProgress& progress) {
    BackendOptions backend_options = options.backend;
    RankRunnerOptions rank_options = options.rank;
    rank_options.batch_invariant = backend_options.batch_invariant;
    const int num_ranks = static_cast<int>(groups_.size());
    int num_threads = options.backend.num_threads;
    if (num_threads == 0 && num_ranks > 1) {
      num_threads = NumUsableCores();
    }
    if (num_threads > 0) backend_options.num_threads = std::max(1, num_threads / num_ranks);
    return workers_.Run([&, backend_options, rank_options](int rank) -> absl::Status {
      const auto index = static_cast<std::size_t>(rank);
      // The CPU is one device that the ranks share by threads.
      const int ordinal = options.device == DeviceKind::kCpu ? 0 : rank;
      BackendOptions own_options = backend_options;
      if (rank == 0 && own_options.report == nullptr) {
        own_options.report = [](std::string_view line) {
          std::fprintf(stderr, "level=info event=backend_reserved %.*s\n",
                       static_cast<int>(line.size()), line.data());
        };
      }
      absl::StatusOr<std::unique_ptr<Backend>> backend =
          CreateBackend(options.device, ordinal, own_options);
      if (!backend.ok()) return backend.status();
      backends_[index] = *std::move(backend);
      backends_[index]->BindThread();
      absl::StatusOr<std::unique_ptr<RankRunner>> runner =
          RankRunner::Create(files, *backends_[index], *groups_[index], rank_options,
                             rank == 0 ? progress : LoadProgress());
      if (!runner.ok()) return runner.status();
      ranks_[index] = *std::move(runner);
      return absl::OkStatus();
    });
  }

  int num_blocks() const {
    int blocks = ranks_[0]->num_blocks();
    for (const auto& rank : ranks_) blocks = std::min(blocks, rank->num_blocks());
    return blocks;
  }

  StepTicket Launch(const StepInput& input, StepOutput& output) override {
    output.attention.resize(ranks_.size());
    // Two pointers and `this` are more than a std::function holds without allocating.
    Step& step = steps_[num_launched_++ % 2];
    step = {&input, &output};
    return StepTicket{workers_.Post([this, &step](int rank) {
      return ranks_[static_cast<std::size_t>(rank)]->QueueStep(*step.input, *step.output);
    })};
  }

  // Devices may still be at work when the workers are done, which by then queue the next step.
  absl::Status Wait(StepTicket ticket) override {
    absl::Status status = workers_.Wait(static_cast<std::int64_t>(ticket));
    for (const std::unique_ptr<RankRunner>& rank : ranks_) {
      if (status.ok()) status = rank->FinishStep();
    }
    if (!status.ok()) workers_.Fail(status);
    return status;
  }

 private:
  struct Step {
    const StepInput* input = nullptr;
    StepOutput* output = nullptr;
  };

  std::vector<std::unique_ptr<TensorParallelGroup>> groups_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<RankRunner>> ranks_;
  Step steps_[2];
  std::int64_t num_launched_ = 0;
  WorkerGroup workers_;  // last: its threads use the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRunner>> CreateParallelRunner(
    const ModelFiles& files, const ParallelRunnerOptions& options, const LoadProgress& progress,
    int* num_blocks) {
  if (options.device == DeviceKind::kCuda && options.tensor_parallel > 1) {
    return absl::UnimplementedError(
        absl::StrCat("--tensor-parallel ", options.tensor_parallel,
                     " on the cuda device: this build has no group of GPUs; use 1"));
  }
  auto runner = std::make_unique<ParallelRunner>(options.tensor_parallel);
  if (absl::Status status = runner->Load(files, options, progress); !status.ok()) return status;
  if (num_blocks != nullptr) *num_blocks = runner->num_blocks();
  return runner;
}

}  // namespace thresher
