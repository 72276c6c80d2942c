// What an engine serves of attention, and which cached blocks a request may share.
#include "engine/attention/attention_catalog.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/attention/policy_kind.h"
#include "engine/request_error.h"
#include "tests/support/threshold_tables.h"

namespace thresher::testing {
namespace {

std::unique_ptr<AttentionCatalog> WithTable(const AttentionSettings& settings = {}) {
  auto table = ThresholdTable::Create(SampleTable({}));
  EXPECT_TRUE(table.ok()) << table.status();
  auto catalog = AttentionCatalog::Create(settings, *std::move(table));
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return *std::move(catalog);
}

std::unique_ptr<AttentionCatalog> WithoutTable() { return *AttentionCatalog::Create({}, nullptr); }

AttentionChoice Decode(double k) {
  return {.level = "custom", .prefill = {}, .decode = {"top_theta", {{"k", k}}}};
}

TEST(AttentionCatalog, WithoutATableTopThetaSaysHowToCalibrate) {
  const absl::Status status = WithoutTable()->Validate(Decode(32));
  EXPECT_EQ(ErrorField(status), "attention.decode.policy");
  EXPECT_NE(status.message().find("thresher calibrate"), std::string::npos) << status;
  EXPECT_TRUE(WithoutTable()->Validate({}).ok());
  EXPECT_TRUE(WithTable()->Validate(Decode(32)).ok());
}

TEST(AttentionCatalog, KIsRefusedOutsideTheTable) {
  const auto catalog = WithTable();
  for (const double k : {15.0, 65.0, 0.0, -1.0, 20.5, std::nan("")}) {
    const absl::Status status = catalog->Validate(Decode(k));
    EXPECT_EQ(ErrorField(status), "attention.decode.k") << k;
    EXPECT_NE(status.message().find("from 16 to 64"), std::string::npos) << status;
  }
  EXPECT_TRUE(catalog->Validate(Decode(16)).ok());
  EXPECT_TRUE(catalog->Validate(Decode(64)).ok());
}

TEST(AttentionCatalog, NamesTheFieldThatIsWrong) {
  const auto catalog = WithTable();
  AttentionChoice choice;
  choice.decode = {"top_theta", {{"kk", 32}}};
  EXPECT_EQ(ErrorField(catalog->Validate(choice)), "attention.decode.kk");
  choice.decode = {"topk", {}};
  EXPECT_EQ(ErrorField(catalog->Validate(choice)), "attention.decode.policy");
  choice.decode = {};
  choice.prefill = {"dense", {{"mu", 0.7}}};
  EXPECT_EQ(ErrorField(catalog->Validate(choice)), "attention.prefill.mu");
}

TEST(AttentionCatalog, DescribesWhatTheTableServes) {
  for (const PolicyDescription& policy : WithTable()->Describe()) {
    if (policy.name != "top_theta") continue;
    ASSERT_EQ(policy.parameters.size(), 1u);
    EXPECT_EQ(policy.parameters[0].minimum, 16);
    EXPECT_EQ(policy.parameters[0].maximum, 64);
    EXPECT_EQ(policy.parameters[0].default_value, 64);
    return;
  }
  FAIL() << "top_theta is not described";
}

TEST(AttentionCatalog, LimitsRowsByWhatTheTableSpeaksFor) {
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  AttentionSettings settings;
  EXPECT_EQ(WithTable(settings)->longest_thresholded_row(), 8 * 256);
  EXPECT_EQ(WithoutTable()->longest_thresholded_row(), kNoLimit);
  settings.top_theta.max_length_factor = 3;
  EXPECT_EQ(WithTable(settings)->longest_thresholded_row(), 3 * 256);
  for (const int factor : {0, kNoLimit}) {
    settings.top_theta.max_length_factor = factor;
    EXPECT_EQ(WithTable(settings)->longest_thresholded_row(), kNoLimit);
  }
}

TEST(AttentionCatalog, KeepsSumsOnlyForATable) {
  EXPECT_TRUE(WithTable()->needs_sums());
  EXPECT_FALSE(WithoutTable()->needs_sums());
}

TEST(AttentionCatalog, RefusesWhatTheDeviceHasNoKernelsFor) {
  const auto catalog =
      AttentionCatalog::Create({}, *ThresholdTable::Create(SampleTable({})), DeviceKind::kCuda)
          .value();
  EXPECT_TRUE(catalog->Validate({}).ok());
  EXPECT_FALSE(catalog->needs_sums());
  for (const PolicyDescription& policy : catalog->Describe()) EXPECT_EQ(policy.name, "dense");
  AttentionChoice choice;
  choice.decode.policy = "top_theta";
  const absl::Status status = catalog->Validate(choice);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("attention.decode.policy is top_theta"), std::string::npos);
  choice = {};
  choice.prefill.policy = "stem";
  EXPECT_EQ(catalog->Validate(choice).code(), absl::StatusCode::kUnimplemented);
}

TEST(AttentionCatalog, ATableMustHaveThePlacement) {
  ThresholdContents contents = SampleTable({});
  contents.placements[static_cast<std::size_t>(ThresholdPlacement::kPost)] = {};
  const auto catalog = AttentionCatalog::Create({}, *ThresholdTable::Create(contents));
  EXPECT_EQ(catalog.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(AttentionSettings, NamesWhatIsWrong) {
  EXPECT_TRUE(AttentionSettings().Validate().ok());
  AttentionSettings settings;
  settings.top_theta.layers = {{3, 0}, {3, 64}};
  EXPECT_NE(settings.Validate().message().find("layer 3"), std::string::npos);
  settings = {};
  settings.top_theta.denominator = DroppedDenominator::kExponential;
  EXPECT_NE(settings.Validate().message().find("promotes"), std::string::npos);
  settings = {};
  settings.top_theta.value_mean = ValueMean::kOff;
  EXPECT_NE(settings.Validate().message().find("value_mean"), std::string::npos);
  settings = {};
  settings.block_lists.stride = 12;
  EXPECT_NE(settings.Validate().message().find("stride is 12"), std::string::npos);
  settings = {};
  settings.block_lists.forced.local = 0;
  EXPECT_NE(settings.Validate().message().find("local"), std::string::npos);
  settings = {};
  settings.shadow_interval = -1;
  EXPECT_NE(settings.Validate().message().find("--shadow-interval"), std::string::npos);
}

// Whether a request of `reader` may take up the block, of 16 tokens at `token`, that `writer`
// registered.
bool Shares(const PrefixRules& writer, const PrefixRules& reader, int token) {
  const SaltSpan& written = SpanOfBlock(writer.salts, token / 16, 16);
  const SaltSpan& read = SpanOfBlock(reader.salts, token / 16, 16);
  return written.written == read.written || written.written == read.also_accepted;
}

PrefixRules RulesOf(const AttentionCatalog& catalog, const AttentionChoice& choice,
                    int prompt_length, std::uint64_t nonce = 1) {
  EXPECT_TRUE(catalog.Validate(choice).ok()) << catalog.Validate(choice);
  PrefixRules rules = catalog.PrefixRulesOf(choice, prompt_length, nonce, false);
  EXPECT_TRUE(ValidateSaltSpans(rules.salts).ok()) << ValidateSaltSpans(rules.salts);
  return rules;
}

TEST(PrefixRules, DenseRequestsShareEverything) {
  const auto catalog = WithTable();
  const PrefixRules rules = RulesOf(*catalog, {}, 100);
  ASSERT_EQ(rules.salts.size(), 1u);
  EXPECT_EQ(rules.salts[0].written, 0u);
  EXPECT_EQ(rules.salts[0].also_accepted, 0u);
  EXPECT_EQ(rules.prefill_chunk_multiple, 1);
}

TEST(PrefixRules, WhatTopThetaDecodedIsForItsOwnConversation) {
  const auto catalog = WithTable();
  const PrefixRules first = RulesOf(*catalog, Decode(32), 40);
  const PrefixRules own_turn = RulesOf(*catalog, Decode(32), 120);
  const PrefixRules other_k = RulesOf(*catalog, Decode(33), 120);
  const PrefixRules dense_turn = RulesOf(*catalog, {}, 120);
  // The prompt is dense: everybody may have it.
  EXPECT_TRUE(Shares(first, own_turn, 16));
  EXPECT_TRUE(Shares(first, other_k, 16));
  EXPECT_TRUE(Shares(first, dense_turn, 16));
  // Rows 40 … 47 stand in the block at 32.
  for (const int token : {32, 48, 96}) {
    EXPECT_TRUE(Shares(first, own_turn, token)) << token;
    EXPECT_FALSE(Shares(first, other_k, token)) << token;
    EXPECT_FALSE(Shares(first, dense_turn, token)) << token;
  }
  // After a preemption the request looks past its prompt: dense blocks are not what it computed.
  EXPECT_TRUE(Shares(first, first, 96));
  EXPECT_FALSE(Shares(dense_turn, first, 96));
  EXPECT_TRUE(Shares(dense_turn, own_turn, 96));
}

TEST(PrefixRules, ATopThetaPromptSharesItsDenseBeginning) {
  const auto catalog = WithTable();
  AttentionChoice choice = Decode(32);
  choice.prefill = {"top_theta", {{"k", 32}}};
  const PrefixRules rules = RulesOf(*catalog, choice, 200);
  const PrefixRules dense = RulesOf(*catalog, {}, 300);
  EXPECT_TRUE(Shares(dense, rules, 16));
  EXPECT_TRUE(Shares(rules, dense, 16));
  EXPECT_FALSE(Shares(dense, rules, 32));
  EXPECT_FALSE(Shares(rules, dense, 32));
  // Its rows do not depend on the prompt's length.
  const PrefixRules longer = RulesOf(*catalog, choice, 300);
  EXPECT_TRUE(Shares(rules, longer, 160));
  EXPECT_TRUE(Shares(rules, longer, 240));
  choice.prefill.parameters[0].second = 33;
  EXPECT_FALSE(Shares(rules, RulesOf(*catalog, choice, 300), 160));
}

TEST(PrefixRules, ABatchInvariantPromptReadsNoDecodedBlock) {
  const auto catalog = WithTable();
  for (const AttentionChoice& choice : {AttentionChoice(), Decode(32)}) {
    const PrefixRules first = catalog->PrefixRulesOf(choice, 40, 1, true);
    const PrefixRules second = catalog->PrefixRulesOf(choice, 120, 1, true);
    EXPECT_TRUE(Shares(first, second, 16));
    EXPECT_FALSE(Shares(first, second, 32));
    EXPECT_FALSE(Shares(first, second, 96));
    EXPECT_TRUE(Shares(first, first, 96));
  }
}

TEST(PolicyKinds, AreFoundByName) {
  for (std::size_t i = 0; i < PolicyKinds().size(); ++i) {
    const PolicyDescription& description = PolicyKinds()[i]->description();
    EXPECT_EQ(FindPolicyKind(description.name), static_cast<int>(i));
    EXPECT_LE(description.parameters.size(), static_cast<std::size_t>(kMaxPolicyParameters));
    EXPECT_FALSE(description.help.empty());
    EXPECT_TRUE(description.prefill || description.decode);
  }
  EXPECT_EQ(FindPolicyKind("no such policy"), -1);
}

}  // namespace
}  // namespace thresher::testing
