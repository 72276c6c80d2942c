// Ranks as threads of one process, and the group of one. Data moves through shared memory: ranks
// publish their pointers, meet, and each works on its own part of everybody's tensor.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/rank_barrier.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

absl::Status CheckGather(const TensorView& in, const TensorView& out, int size) {
  absl::Status status =
      CheckTensor("all_gather_columns", "in", in, {DType::kF32}, {kAnySize, kAnySize});
  if (!status.ok()) return status;
  return CheckTensor("all_gather_columns", "out", out, {DType::kF32},
                     {in.shape[0], size * in.shape[1]});
}

absl::Status CheckReduce(const TensorView& tensor, DType dtype) {
  TensorView flat = tensor;
  flat.rank = 1;
  flat.shape = {tensor.num_elements()};
  return CheckTensor("all_reduce_sum", "tensor", flat, {dtype}, {kAnySize});
}

class SoloGroup final : public TensorParallelGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Status AllReduceSum(TensorView tensor, Stream&) override {
    return aborted_ ? Aborted() : CheckReduce(tensor, tensor.dtype);
  }
  absl::Status AllGatherColumns(TensorView in, TensorView out, Stream&) override {
    if (aborted_) return Aborted();
    absl::Status status = CheckGather(in, out, 1);
    if (status.ok() && in.data != out.data) std::memmove(out.data, in.data, in.num_bytes());
    return status;
  }
  absl::Status Broadcast(std::span<std::byte>, Stream&) override {
    return aborted_ ? Aborted() : absl::OkStatus();
  }
  void Abort() override { aborted_ = true; }

 private:
  static absl::Status Aborted() { return absl::UnavailableError("the group was aborted"); }
  std::atomic<bool> aborted_{false};
};

// What a rank shows to the others during one operation.
enum class Operation : std::uint8_t { kAllReduceSum, kAllGatherColumns, kBroadcast };
struct Offer {
  Operation operation = Operation::kAllReduceSum;
  void* memory = nullptr;
  std::int64_t size = 0;    // elements of a row or tensor, or bytes
  std::int64_t rows = 0;    // of AllGatherColumns
  bool acceptable = false;  // the rank's own arguments are consistent
};

// Offers are written before one meeting and read before the next: two meetings an operation.
struct Meeting {
  explicit Meeting(int size) : barrier(size), offers(size) {}
  RankBarrier barrier;
  std::vector<Offer> offers;
};

class InProcessGroup final : public TensorParallelGroup {
 public:
  InProcessGroup(int rank, std::shared_ptr<Meeting> meeting)
      : rank_(rank), meeting_(std::move(meeting)) {}
  // A rank that goes away must not be waited for.
  ~InProcessGroup() override { Abort(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_->offers.size()); }
  void Abort() override { meeting_->barrier.Abort(); }

  absl::Status AllReduceSum(TensorView tensor, Stream&) override {
    absl::Status own = CheckReduce(tensor, DType::kF32);
    absl::Status met =
        Meet({Operation::kAllReduceSum, tensor.data, tensor.num_elements(), 1, own.ok()});
    if (!met.ok()) return own.ok() ? met : own;
    SumSlice(tensor.num_elements());
    return Leave();
  }

  absl::Status AllGatherColumns(TensorView in, TensorView out, Stream&) override {
    absl::Status own = CheckGather(in, out, size());
    absl::Status met =
        Meet({Operation::kAllGatherColumns, in.data, in.shape[1], in.shape[0], own.ok()});
    if (!met.ok()) return own.ok() ? met : own;
    const std::int64_t columns = in.shape[1];
    for (std::int64_t row = 0; row < in.shape[0]; ++row) {
      float* to = out.as<float>() + row * columns * size();
      for (const Offer& offer : meeting_->offers) {
        const float* from = static_cast<const float*>(offer.memory) + row * columns;
        to = std::copy(from, from + columns, to);
      }
    }
    return Leave();
  }

  absl::Status Broadcast(std::span<std::byte> bytes, Stream&) override {
    absl::Status met = Meet(
        {Operation::kBroadcast, bytes.data(), static_cast<std::int64_t>(bytes.size()), 1, true});
    if (!met.ok()) return met;
    if (rank_ != 0 && !bytes.empty()) {
      std::memcpy(bytes.data(), meeting_->offers[0].memory, bytes.size());
    }
    return Leave();
  }

 private:
  // All ranks come to the same verdict, since all see the same offers.
  absl::Status Meet(const Offer& offer) {
    meeting_->offers[rank_] = offer;
    if (!meeting_->barrier.Arrive()) return Gone();
    for (int other = 0; other < size(); ++other) {
      const Offer& theirs = meeting_->offers[other];
      const Offer& first = meeting_->offers[0];
      if (!theirs.acceptable) return Refuse(other, "has inconsistent tensors");
      if (theirs.operation != first.operation)
        return Refuse(other, "runs another operation than rank 0");
      if (theirs.size != first.size || theirs.rows != first.rows) {
        return Refuse(other, "brings another size than rank 0");
      }
    }
    return absl::OkStatus();
  }

  // A refusal must leave the offers alone until all ranks have read them.
  absl::Status Refuse(int other, const char* what) {
    std::string message = "rank " + std::to_string(other) + " " + what;
    if (!meeting_->barrier.Arrive()) return Gone();
    return absl::InvalidArgumentError(message);
  }

  absl::Status Leave() { return meeting_->barrier.Arrive() ? absl::OkStatus() : Gone(); }

  absl::Status Gone() const {
    return absl::UnavailableError("rank " + std::to_string(rank_) +
                                  ": another rank has failed or left the group");
  }

  // This rank's share of the elements, summed in rank order and written to every rank's tensor.
  // Shares are cut at cache lines, so that no line is written by two ranks.
  void SumSlice(std::int64_t num_elements) {
    constexpr std::int64_t kLine = 16;
    const std::int64_t lines = (num_elements + kLine - 1) / kLine;
    const std::int64_t begin = lines * rank_ / size() * kLine;
    const std::int64_t end = std::min(num_elements, lines * (rank_ + 1) / size() * kLine);
    constexpr std::int64_t kChunk = 1024;
    float sum[kChunk];
    for (std::int64_t at = begin; at < end; at += kChunk) {
      const std::int64_t count = std::min(kChunk, end - at);
      const float* first = static_cast<const float*>(meeting_->offers[0].memory) + at;
      std::copy(first, first + count, sum);
      for (int other = 1; other < size(); ++other) {
        const float* theirs = static_cast<const float*>(meeting_->offers[other].memory) + at;
        for (std::int64_t i = 0; i < count; ++i) sum[i] += theirs[i];
      }
      for (const Offer& offer : meeting_->offers) {
        std::copy(sum, sum + count, static_cast<float*>(offer.memory) + at);
      }
    }
  }

  const int rank_;
  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<TensorParallelGroup>> CreateInProcessGroup(int size) {
  std::vector<std::unique_ptr<TensorParallelGroup>> ranks;
  if (size <= 1) {
    ranks.push_back(std::make_unique<SoloGroup>());
    return ranks;
  }
  auto meeting = std::make_shared<Meeting>(size);
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<InProcessGroup>(rank, meeting));
  }
  return ranks;
}

}  // namespace thresher
