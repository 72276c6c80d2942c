// What an evaluation found, and its two forms: JSON for programs, one HTML page for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention/attention_choice.h"
#include "engine/attention/evaluate/paired_bootstrap.h"

namespace thresher {

// Positions of one range of row lengths under one choice.
struct LengthBucketReading {
  std::string label;  // "512-2k": from 512 tokens on, below 2,048
  std::int64_t num_tokens = 0;
  double kl = 0;                   // mean KL(dense ‖ choice), nats
  double top_agreement = 0;        // share of positions with the same most likely token
  double perplexity_increase = 0;  // relative
  // Means over query heads of sparse layers and rows longer than k; 0 without such rows.
  double selected_per_target = 0;  // survivors / k
  double dropped_mass = 0;
  double value_row_share = 0;  // of rows read, all layers, union over the heads of a KV head
};

// Of sampled lists of blocks, those that leave blocks out: means over lists or their rows.
struct BlockListReading {
  std::int64_t num_lists = 0;
  // Kendall's tau-b of the blocks' scores against what the output would lose without each block;
  // absent if the policy scores no blocks.
  std::optional<double> kendall_tau;
  double removal_recall = 0;  // share of as many of the costliest blocks that the list has
  double mass_recall = 0;     // softmax mass of the list's blocks
  double output_error = 0;    // ‖o − o_dense‖ / ‖o_dense‖ of a head
};

struct ChoiceReading {
  std::string name;
  AttentionChoice choice;
  double perplexity = 0;
  Interval perplexity_increase;  // relative to dense
  Interval kl;
  Interval top_agreement;
  double value_row_share = 1;         // decode rows: union over a KV head's query heads, all layers
  double value_row_share_at_end = 1;  // of the last rows of each window alone
  // The same if each query head read its own survivors alone, as without grouped heads.
  double value_row_share_of_heads = 1;
  double block_density = 1;  // prefill blocks selected / causal ones
  double output_error = 0;  // mean over layers of ‖o − o_dense‖ / ‖o_dense‖, sampled rows
  // Absent if no row was thresholded.
  std::optional<double>
      heads_within_target;  // share of (layer, head) with mean survivors / k in [0.5, 2]
  std::optional<BlockListReading> lists;  // absent if no list was seen
  std::vector<LengthBucketReading> buckets;
  std::vector<std::pair<std::string, double>> tasks;  // task and mean score, 0 … 1
};

struct EvaluationReport {
  std::string model;  // file name, without its folder
  std::vector<std::string> texts;
  int prompt_tokens = 0;  // positions below it run under the prefill policy
  int window_tokens = 0;  // length of each stretch of text
  int num_windows = 0;
  int first_position = 0;       // positions below it are left out of the means
  std::int64_t num_tokens = 0;  // that count
  double dense_perplexity = 0;
  std::vector<std::pair<std::string, double>> dense_tasks;
  std::vector<ChoiceReading> choices;
  std::string command;
};

std::string ReportAsJson(const EvaluationReport& report);
// One self-contained page: a table, cost against loss, and readings by row length.
std::string ReportAsHtml(const EvaluationReport& report);

}  // namespace thresher
