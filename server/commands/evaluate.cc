// `thresher evaluate`: what attention choices cost and lose on given text.
#include "engine/attention/evaluate/evaluate.h"

#include <google/protobuf/text_format.h>

#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/commands/progress_line.h"
#include "server/config/attention_config.h"
#include "server/config/defaults.h"
#include "server/config/server_config.h"
#include "server/http/json_request.h"
#include "server/requests/attention_mapping.h"

namespace thresher {
namespace {

constexpr char kUsage[] =
    "usage: thresher evaluate --model PATH --text FILE... --attention CHOICE... [flags]\n"
    "       thresher evaluate --model PATH --tune-on FILE... --report-on FILE... --max-loss X\n"
    "                         --attention CHOICE... [flags]\n"
    "Runs every window of the texts dense and under each choice, and compares the next-token\n"
    "distributions. A CHOICE is \"[NAME:]LEVEL_OR_JSON[|SETTINGS]\": a level, or the JSON object "
    "of\n"
    "the HTTP API; SETTINGS are fields of the configuration file, e.g.\n"
    "  'post:{\"decode\":{\"policy\":\"top_theta\",\"k\":128}}|top_theta { placement: POST }'\n";

absl::StatusOr<std::vector<TextFile>> ReadTexts(
    const google::protobuf::RepeatedPtrField<std::string>& paths) {
  absl::StatusOr<std::vector<TextFile>> texts =
      ReadTextFiles(std::vector<std::string>(paths.begin(), paths.end()));
  if (!texts.ok()) return texts.status();
  // A report is for others, whose folders are not these.
  for (TextFile& text : *texts) text.name.erase(0, text.name.find_last_of('/') + 1);
  return texts;
}

// A name is what stands before a ':' that comes before any '{'.
std::string TakeName(std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon > text.find('{')) return text;
  const std::string name = text.substr(0, colon);
  text.erase(0, colon + 1);
  return name;
}

absl::StatusOr<EvaluatedChoice> ReadChoice(const std::string& given, const ServerConfig& config) {
  const std::size_t bar = given.find('|');
  std::string text = given.substr(0, bar);
  EvaluatedChoice choice;
  choice.name = TakeName(text);
  const absl::StatusOr<AttentionWish> wish = ReadAttentionText(text);
  if (!wish.ok()) return wish.status();
  absl::StatusOr<AttentionChoice> resolved =
      MergeAttention(*wish, "", "", config.levels, config.default_level);  // the catalog checks it
  if (!resolved.ok()) return resolved.status();
  choice.choice = *std::move(resolved);
  v1::ServeConfig settings;
  if (bar != std::string::npos &&
      !google::protobuf::TextFormat::ParseFromString(given.substr(bar + 1), &settings)) {
    return absl::InvalidArgumentError("its settings are not fields of the configuration file");
  }
  v1::ServeConfig others = settings;
  others.clear_top_theta();
  others.clear_block_lists();
  if (others.ByteSizeLong() > 0) {
    return absl::InvalidArgumentError("its settings may be top_theta and block_lists alone");
  }
  if (absl::Status status = FillAttentionSettings(settings, choice.settings); !status.ok()) {
    return status;
  }
  return choice;
}

absl::StatusOr<EvaluateOptions> ReadOptions(const v1::EvaluateConfig& flags) {
  v1::ServeConfig settings = DefaultServeConfig();
  settings.set_model(flags.model());
  settings.set_threads(flags.threads());
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(settings);
  if (!config.ok()) return config.status();
  const bool tunes = flags.tune_on_size() > 0 || flags.report_on_size() > 0;
  if (tunes && (flags.tune_on_size() == 0 || flags.report_on_size() == 0)) {
    return absl::InvalidArgumentError("--tune-on and --report-on go together");
  }
  if (tunes == (flags.text_size() > 0)) {
    return absl::InvalidArgumentError("give either --text, or --tune-on and --report-on");
  }
  EvaluateOptions options;
  options.model_path = flags.model();
  options.threshold_table = flags.threshold_table();
  options.context_factor = flags.context_factor();
  absl::StatusOr<std::vector<TextFile>> texts = ReadTexts(tunes ? flags.tune_on() : flags.text());
  if (!texts.ok()) return texts.status();
  options.texts = *std::move(texts);
  for (const std::string& given : flags.attention()) {
    absl::StatusOr<EvaluatedChoice> choice = ReadChoice(given, *config);
    if (!choice.ok()) {
      return absl::Status(
          choice.status().code(),
          absl::StrCat("--attention '", given, "': ", std::string(choice.status().message())));
    }
    options.choices.push_back(*std::move(choice));
  }
  options.prompt_tokens = flags.prompt_tokens();
  options.window_tokens = flags.window_tokens();
  options.num_windows = flags.windows();
  options.first_position = flags.first_position();
  options.num_tasks = flags.tasks();
  options.task_tokens = flags.task_tokens();
  options.shadow_interval = flags.shadow_interval();
  options.seed = static_cast<std::uint64_t>(flags.seed());
  options.backend = config->engine.backend;
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  return options;
}

void Print(const EvaluationReport& report) {
  std::cout << absl::StrFormat("dense: perplexity %.4f over %d tokens\n", report.dense_perplexity,
                               report.num_tokens);
  for (const ChoiceReading& r : report.choices) {
    std::cout << absl::StrFormat(
        "%s: V rows %.1f %% (at the end %.1f %%), blocks %.1f %%, perplexity +%.3f %% (to %.3f "
        "%%), "
        "KL %.5f (to %.5f), same top %.2f %%%s\n",
        r.name, 100 * r.value_row_share, 100 * r.value_row_share_at_end, 100 * r.block_density,
        100 * r.perplexity_increase.mean, 100 * r.perplexity_increase.upper, r.kl.mean, r.kl.upper,
        100 * r.top_agreement.mean,
        r.heads_within_target.has_value()
            ? absl::StrFormat(", heads within half and double of k %.1f %%",
                              100 * *r.heads_within_target)
            : "");
  }
}

absl::Status Write(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

// Before hours of work, not after.
absl::Status CheckWritable(const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::binary | std::ios::app)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
}

absl::StatusOr<EvaluationReport> EvaluateVisibly(const EvaluateOptions& options) {
  ProgressLine line("evaluate", /*enabled=*/true);
  return Evaluate(options, [&line](std::int64_t done, std::int64_t total) {
    line.Show(static_cast<double>(done) / static_cast<double>(total), 0, "");
  });
}

absl::StatusOr<EvaluationReport> Tune(const v1::EvaluateConfig& flags, EvaluateOptions options) {
  absl::StatusOr<EvaluationReport> tuned = EvaluateVisibly(options);
  if (!tuned.ok()) return tuned.status();
  Print(*tuned);
  const int best = CheapestWithin(*tuned, flags.max_loss());
  if (best < 0) {
    return absl::NotFoundError(absl::StrCat("no choice keeps the perplexity increase within ",
                                            flags.max_loss(), " on the texts of --tune-on"));
  }
  options.choices = {options.choices[static_cast<std::size_t>(best)]};
  std::cout << "chosen: " << options.choices[0].name << std::endl;
  absl::StatusOr<std::vector<TextFile>> texts = ReadTexts(flags.report_on());
  if (!texts.ok()) return texts.status();
  options.texts = *std::move(texts);
  return EvaluateVisibly(options);
}

}  // namespace

int RunEvaluate(const std::vector<std::string>& arguments) {
  v1::EvaluateConfig flags = DefaultEvaluateConfig();
  if (std::optional<int> end = ReadCommandLine(kUsage, arguments, flags)) return *end;
  absl::Status status = CheckRunsOnCpu(flags.device(), "the lists and observers of an evaluation");
  absl::StatusOr<EvaluateOptions> options = ReadOptions(flags);
  if (status.ok()) status = options.status();
  if (status.ok()) status = CheckWritable(flags.json());
  if (status.ok()) status = CheckWritable(flags.html());
  if (!status.ok()) {
    Fail(status);
    return 2;
  }
  options->command = "thresher evaluate";
  for (const std::string& argument : arguments) absl::StrAppend(&options->command, " ", argument);
  const absl::StatusOr<EvaluationReport> report =
      flags.tune_on_size() > 0 ? Tune(flags, *options) : EvaluateVisibly(*options);
  if (!report.ok()) return Fail(report.status());
  Print(*report);
  status = Write(flags.json(), ReportAsJson(*report));
  if (status.ok()) status = Write(flags.html(), ReportAsHtml(*report));
  return status.ok() ? 0 : Fail(status);
}

}  // namespace thresher
