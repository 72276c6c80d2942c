// What must hold between any two calls.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/scheduler_state.h"

namespace thresher {
namespace {

absl::Status Broken(const char* what, int index) {
  return absl::InternalError(absl::StrCat(what, " (", index, ")"));
}

}  // namespace

absl::Status Scheduler::State::CheckInvariants() const {
  if (absl::Status status = blocks.CheckInvariants(); !status.ok()) return status;
  if (absl::Status status = queue.CheckInvariants(); !status.ok()) return status;
  if (absl::Status status = CheckRequests(); !status.ok()) return status;
  return CheckSequences();
}

absl::Status Scheduler::State::CheckRequests() const {
  int num_in_stage[4] = {};
  std::int64_t prompt_tokens = 0;
  absl::Status status;
  requests.ForEach([&](int index, const Request& request) {
    ++num_in_stage[static_cast<int>(request.stage)];
    if (request.stage != RequestStage::kRunning) prompt_tokens += request.prompt_length;
    const bool has_sequence =
        request.stage == RequestStage::kRunning || request.stage == RequestStage::kPreempting;
    if (has_sequence != (request.sequence != kNone)) {
      status = Broken("a request has a sequence if it runs", index);
    } else if (has_sequence && (sequences[request.sequence].request != index ||
                                sequences[request.sequence].id != request.id)) {
      status = Broken("a request and its sequence name each other", index);
    }
    if ((request.stage == RequestStage::kFollowing) != (request.leader != kNone)) {
      status = Broken("a request follows if it has a leader", index);
    }
    int followers = 0;
    for (int i = request.first_follower; i != kNone; i = requests[i].next_follower) {
      if (requests[i].leader != index || ++followers > requests.size()) {
        status = Broken("followers name their leader", index);
        break;
      }
    }
  });
  if (!status.ok()) return status;
  for (int position = 0; position < queue.size(); ++position) {
    if (requests[queue.request(position)].stage != RequestStage::kQueued) {
      return Broken("a request in the queue is not waiting", queue.request(position));
    }
  }
  const int counts[4] = {queue.size(), num_following, static_cast<int>(running.size()),
                         num_preempting};
  for (int stage = 0; stage < 4; ++stage) {
    if (num_in_stage[stage] != counts[stage]) {
      return absl::InternalError(absl::StrCat(num_in_stage[stage], " requests are in stage ", stage,
                                              "; counted ", counts[stage]));
    }
  }
  if (prompt_tokens != queued_prompt_tokens) {
    return absl::InternalError(
        absl::StrCat(prompt_tokens, " prompt tokens wait; counted ", queued_prompt_tokens));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::State::CheckSequences() const {
  std::vector<int> num_plans_naming(sequences.num_rows());
  std::vector<int> num_samples(sequences.num_rows());
  for (int i = 0; i < num_plans; ++i) {
    if (static_cast<int>(plans[i].sequences.size()) > options.max_running) {
      return Broken("a plan has more sequences than may run", i);
    }
    for (const InFlightSequence& entry : plans[i].sequences) {
      ++num_plans_naming[entry.row];
      num_samples[entry.row] += entry.samples;
    }
  }
  int num_used = 0;
  for (int row = 0; row < sequences.num_rows(); ++row) {
    const Sequence& sequence = sequences[row];
    const auto listed = std::ranges::count(running, row);
    if (listed != (sequence.stage == SequenceStage::kRunning)) {
      return Broken("a running sequence is listed once", row);
    }
    if (sequence.stage == SequenceStage::kUnused) continue;
    ++num_used;
    if (sequence.num_plans != num_plans_naming[row]) {
      return Broken("a sequence counts the plans that name it", row);
    }
    if (sequence.stage == SequenceStage::kEnded) {
      if (sequence.num_plans == 0) return Broken("an ended sequence in no plan holds blocks", row);
      continue;
    }
    if (sequence.num_pending_samples != num_samples[row]) {
      return Broken("a sequence counts its samples under way", row);
    }
    if (sequence.committed_length > sequence.context_length ||
        sequence.context_length > sequence.num_tokens || sequence.num_known > sequence.num_tokens ||
        sequence.num_tokens > sequence.max_tokens) {
      return Broken("the lengths of a sequence are in order", row);
    }
    if (sequence.num_plans == 0 && sequence.committed_length != sequence.context_length) {
      return Broken("a sequence in no plan is committed", row);
    }
    const bool prefilling = std::ranges::count(prefills, row) == 1;
    if (sequence.stage == SequenceStage::kRunning && prefilling == sequence.decoding()) {
      return Broken("a running sequence either decodes or prefills", row);
    }
    const int most = blocks.BlocksFor(sequence.max_tokens - 1);
    if (sequence.num_blocks > most ||
        (!sequence.preemptible && sequence.num_blocks + sequence.promised_blocks != most)) {
      return Broken("a promise covers all a sequence needs, and no more", row);
    }
    if (prefilling &&
        sequence.num_blocks + sequence.promised_blocks < blocks.BlocksFor(sequence.num_tokens)) {
      return Broken("a promise covers all known tokens", row);
    }
  }
  if (num_used != sequences.num_used()) return Broken("used rows are counted", num_used);
  if (running.size() > static_cast<std::size_t>(options.max_running)) {
    return Broken("more sequences run than may", static_cast<int>(running.size()));
  }
  for (std::size_t i = 0; i + 1 < running.size(); ++i) {
    if (!RanksBefore(sequences[running[i]].request, sequences[running[i + 1]].request)) {
      return Broken("the running sequences are in order", static_cast<int>(i));
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
