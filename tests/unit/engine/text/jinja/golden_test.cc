// Templates against what python3-jinja2 makes of them, stored by
// tests/golden/scripts/make_template_goldens.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/chat_template.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json_value.h"
#include "engine/text/jinja/parser.h"
#include "tests/support/golden_path.h"

namespace thresher {
namespace {

using nlohmann::ordered_json;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Golden(const std::string& name) {
  return ReadFile(testing::GoldenPath("templates/" + name));
}

// The moment that the reference's strftime_now shows.
jinja::Clock TestClock() {
  absl::TimeZone zone = absl::UTCTimeZone();
  return {absl::FromCivil(absl::CivilSecond(2024, 7, 26, 9, 5, 3), zone) + absl::Microseconds(42),
          zone};
}

absl::StatusOr<std::string> Render(const std::string& source, const ordered_json& variables) {
  auto parsed = jinja::Parse(source);
  if (!parsed.ok()) return parsed.status();
  std::vector<std::pair<std::string, jinja::Value>> named;
  for (const auto& [name, value] : variables.items()) {
    auto converted = jinja::ParseJson(value.get<std::string>(), name);
    if (!converted.ok()) return converted.status();
    named.emplace_back(name, *converted);
  }
  jinja::Interpreter interpreter(*parsed, jinja::Limits(), TestClock());
  return interpreter.Run(std::move(named));
}

// Variables are JSON texts by name. Cases are pairs of a source and its output, which is null where
// the reference fails.
void CheckConstructs(const std::string& text) {
  const ordered_json golden = ordered_json::parse(text);
  int num_failed = 0;
  for (const auto& one : golden["cases"]) {
    const std::string source = one[0];
    absl::StatusOr<std::string> output = Render(source, golden["variables"]);
    if (one[1].is_null()) {
      EXPECT_FALSE(output.ok()) << source << "\n  should fail but gives: " << *output;
      num_failed += output.ok();
    } else if (!output.ok() || *output != one[1].get<std::string>()) {
      ADD_FAILURE() << source << "\n  expected: " << one[1] << "\n  is:       "
                    << (output.ok() ? ordered_json(*output).dump()
                                    : std::string(output.status().message()));
      ++num_failed;
    }
    if (num_failed > 60) return;
  }
}

TEST(JinjaGolden, ConstructsRenderAsTheReference) { CheckConstructs(Golden("constructs.json")); }

// A stored sample of what tests/golden/scripts/diff_templates.py makes; the script itself gives
// others each time.
TEST(JinjaGolden, RandomTemplatesRenderAsTheReference) {
  const char* path = std::getenv("THRESHER_TEMPLATE_CASES");
  CheckConstructs(path == nullptr ? Golden("random.json") : ReadFile(path));
}

class ChatTemplateGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(ChatTemplateGolden, PromptsAreTheReferences) {
  const std::string source = Golden(GetParam() + ".jinja");
  const ordered_json golden = ordered_json::parse(Golden(GetParam() + ".json"));
  auto parsed = ChatTemplate::Parse(source, golden["bos_token"].get<std::string>(),
                                    golden["eos_token"].get<std::string>());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  int num_rendered = 0;
  for (const auto& one : golden["cases"]) {
    ChatTemplateInput input;
    input.messages = one["messages"].dump();
    if (one.contains("tools")) input.tools = one["tools"].dump();
    if (one.contains("extra")) input.extra = one["extra"].dump();
    input.add_generation_prompt = one.value("add_generation_prompt", true);
    input.continue_final_message = one.value("continue_final_message", false);
    input.now = TestClock().now;
    auto prompt = (*parsed)->Render(input);
    if (one["prompt"].is_null()) {
      EXPECT_FALSE(prompt.ok()) << one["messages"];
      continue;
    }
    ASSERT_TRUE(prompt.ok()) << prompt.status().message() << "\n" << one["messages"];
    EXPECT_EQ(*prompt, one["prompt"].get<std::string>()) << one["messages"];
    ++num_rendered;
  }
  EXPECT_GT(num_rendered, 3);
}

INSTANTIATE_TEST_SUITE_P(All, ChatTemplateGolden,
                         ::testing::Values("chatml", "deepseek", "llama2", "llama31", "mistral",
                                           "qwen25", "qwen3", "smollm2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace thresher
