#include "engine/text/chat_template.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace thresher {
namespace {

std::unique_ptr<ChatTemplate> MustParse(const std::string& source) {
  auto parsed = ChatTemplate::Parse(source, "<s>", "</s>");
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return *std::move(parsed);
}

constexpr char kPlain[] =
    "{% for m in messages %}[{{ m.role }}]{{ m['content'] + '' }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

absl::StatusOr<std::string> Render(const std::string& source, const std::string& messages,
                                   bool add_generation_prompt = true) {
  ChatTemplateInput input;
  input.messages = messages;
  input.add_generation_prompt = add_generation_prompt;
  return MustParse(source)->Render(input);
}

std::string MessageOf(const absl::StatusOr<std::string>& result) {
  EXPECT_FALSE(result.ok()) << *result;
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

TEST(ChatTemplate, ContentInPartsIsTheSamePromptAsAString) {
  for (const std::string role : {"system", "user", "assistant"}) {
    auto parts =
        Render(kPlain, R"([{"role":")" + role + R"(","content":[{"type":"text","text":"hi"}]}])");
    auto text = Render(kPlain, R"([{"role":")" + role + R"(","content":"hi"}])");
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    EXPECT_EQ(*parts, *text);
  }
  auto two = Render(kPlain, R"([{"role":"user","content":[{"type":"text","text":"a"},"b"]}])");
  EXPECT_EQ(*two, "[user]a\nb\n[assistant]");
}

TEST(ChatTemplate, ATemplateThatWalksContentGetsTheParts) {
  const std::string source =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for part in m['content'] %}{{ part.type }}:{{ part.text }};{% endfor %}{% endif %}"
      "{% endfor %}";
  auto prompt = Render(source, R"([{"role":"user","content":[{"type":"text","text":"a"}]},)"
                               R"({"role":"user","content":"b"}])");
  EXPECT_EQ(*prompt, "text:a;b");
}

TEST(ChatTemplate, APartThatIsNoTextIsRefusedByPlace) {
  auto prompt = Render(kPlain, R"([{"role":"user","content":"a"},)"
                               R"({"role":"user","content":[{"type":"image_url"}]}])");
  EXPECT_NE(MessageOf(prompt).find("messages[1].content"), std::string::npos);
}

TEST(ChatTemplate, ToolCallArgumentsBecomeAnObject) {
  const std::string source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}"
      "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}"
      "{% endfor %}";
  auto prompt = Render(
      source, R"([{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":)"
              R"([{"function":{"name":"f","arguments":"{\"city\":\"Paris\",\"n\":1}"}}]}])");
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(*prompt, "city=Paris;n=1;");
  auto broken = Render("{{ messages[0].tool_calls[0].function.arguments }}",
                       R"([{"tool_calls":[{"function":{"arguments":"{not json"}}]}])");
  EXPECT_EQ(*broken, "{not json");
}

TEST(ChatTemplate, NullFieldsAreDroppedAndReasoningHasThreeNames) {
  auto prompt = Render("{{ messages[0] | tojson }}",
                       R"([{"role":"assistant","content":null,"reasoning":"r"}])");
  EXPECT_EQ(
      *prompt,
      R"({"thinking": "r", "role": "assistant", "reasoning": "r", "reasoning_content": "r"})");
}

TEST(ChatTemplate, TheTemplatesOwnRefusalIsTheWholeMessage) {
  auto prompt = Render(
      "{% macro m() %}{{ raise_exception('Roles must alternate.') }}{% endmacro %}"
      "{% for m in messages %}{{ m.content ~ [self_check] | join }}{{ m2() }}"
      "{% endfor %}",
      R"([{"role":"user","content":"a"}])");
  EXPECT_EQ(MessageOf(prompt), "chat template, line 1: 'm2' is undefined");
  prompt = Render(
      "{% macro m() %}\n{{ 'x' ~ raise_exception('Roles must alternate.') }}"
      "{% endmacro %}\n{{ m() }}",
      "[]");
  EXPECT_EQ(MessageOf(prompt), "Roles must alternate.");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  auto prompt = Render("a\nb\n{{ messages[0].content +\n 1 }}", R"([{"content":"a"}])");
  EXPECT_NE(MessageOf(prompt).find("chat template, line "), std::string::npos);
  auto parsed = ChatTemplate::Parse("a\n{% if x %}\n", "", "");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(parsed.status().message(),
            "chat template, line 2: expected {% endif %}, found the end of the template");
}

TEST(ChatTemplate, WhatTheSubsetLacksIsRefusedByNameAndLineWhenLoaded) {
  const std::pair<const char*, const char*> kCases[] = {
      {"\n{% include 'x' %}", "line 2: the statement {% include %} is not supported"},
      {"{% extends 'x' %}", "line 1: the statement {% extends %} is not supported"},
      {"{% block b %}{% endblock %}", "line 1: the statement {% block %} is not supported"},
      {"{% import 'x' as y %}", "line 1: the statement {% import %} is not supported"},
      {"{% autoescape true %}{% endautoescape %}",
       "line 1: the statement {% autoescape %} is not supported"},
      {"{% for x in y recursive %}{% endfor %}",
       "line 1: a recursive for statement is not supported"},
      {"\n\n{{ x | xmlattr }}", "line 3: the filter xmlattr is not supported"},
      {"{% if false %}{{ x | groupby('a') }}{% endif %}",
       "line 1: the filter groupby is not supported"},
      {"{{ x | map('wordcount') | list }}", "line 1: the filter wordcount is not supported"},
      {"{{ x | selectattr('a', 'filter') }}", "line 1: the test filter is not supported"},
      {"{{ x is filter }}", "line 1: the test filter is not supported"},
      {"{{ cycler('a') }}", "line 1: the function cycler is not supported"},
      {"{{ 'a'.encode() }}", "line 1: the method encode is not supported"},
      {"{{ f(*x) }}", "line 1: an argument with '*' is not supported"},
      {"{{ x[1, 2] }}", "line 1: a subscript of several parts is not supported"},
      {"{{ '\\N{DASH}' }}", "line 1: the escape \\N in a string"},
  };
  for (const auto& [source, message] : kCases) {
    auto parsed = ChatTemplate::Parse(source, "", "");
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kUnimplemented) << source;
    EXPECT_EQ(parsed.status().message(), std::string("chat template, ") + message);
  }
}

TEST(ChatTemplate, SourceMustBeUtf8) {
  EXPECT_FALSE(ChatTemplate::Parse("\xff", "", "").ok());
  EXPECT_FALSE(ChatTemplate::Parse("", "\xc0\x80", "").ok());
  EXPECT_FALSE(ChatTemplate::Parse("", "", "\xed\xa0\x80").ok());
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  auto render = [](const std::string& source, const std::string& content) {
    ChatTemplateInput input;
    input.messages =
        R"([{"role":"user","content":"Hi"},{"role":"assistant","content":)" + content + "}]";
    input.add_generation_prompt = false;
    input.continue_final_message = true;
    return MustParse(source)->Render(input);
  };
  EXPECT_EQ(*render(kPlain, R"("Sure, ")"), "[user]Hi\n[assistant]Sure, ");
  const std::string trims =
      "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}\n{% endfor %}";
  EXPECT_EQ(*render(trims, R"(" Sure, ")"), "[user]Hi\n[assistant]Sure,");
  EXPECT_EQ(*render(kPlain, R"([{"type":"text","text":"Sure"}])"), "[user]Hi\n[assistant]Sure");
  EXPECT_EQ(*render("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}|"
                    "{% endfor %}",
                    R"([{"text":"a"},{"text":"b"}])"),
            "|ab");
  EXPECT_NE(MessageOf(render("{{ messages[0].content }}", R"("Sure")")).find("leaves out"),
            std::string::npos);
  EXPECT_NE(MessageOf(render(kPlain, "null")).find("no last message"), std::string::npos);

  ChatTemplateInput both;
  both.messages = R"([{"role":"assistant","content":"a"}])";
  both.continue_final_message = true;
  EXPECT_NE(MessageOf(MustParse(kPlain)->Render(both)).find("exclude each other"),
            std::string::npos);
}

TEST(ChatTemplate, VariablesOfARequest) {
  const std::string source =
      "{{ bos_token }}|{{ eos_token }}|{{ tools }}|{{ documents }}|{{ enable_thinking }}|"
      "{{ strftime_now('%Y-%m-%d %H') }}";
  ChatTemplateInput input;
  input.messages = "[]";
  input.now = absl::FromCivil(absl::CivilSecond(2024, 2, 29, 23, 0, 0), absl::UTCTimeZone());
  EXPECT_EQ(*MustParse(source)->Render(input), "<s>|</s>|None|None||2024-02-29 23");
  input.tools = R"([{"a": 1}])";
  input.extra = R"({"enable_thinking": false, "bos_token": "B"})";
  input.time_zone = absl::FixedTimeZone(3600);
  EXPECT_EQ(*MustParse(source)->Render(input), "B|</s>|[{'a': 1}]|None|False|2024-03-01 00");
  input.tools = "[]";
  EXPECT_EQ(*MustParse("{{ tools is none }}")->Render(input), "True");
  input.extra = R"({"messages": []})";
  EXPECT_EQ(MessageOf(MustParse(source)->Render(input)),
            "chat_template_kwargs cannot set 'messages'");
}

TEST(ChatTemplate, BadInputNamesTheField) {
  ChatTemplateInput input;
  input.messages = "{}";
  EXPECT_NE(MessageOf(MustParse(kPlain)->Render(input)).find("messages must be a list"),
            std::string::npos);
  input.messages = "[1]";
  EXPECT_NE(MessageOf(MustParse(kPlain)->Render(input)).find("messages[0] must be an object"),
            std::string::npos);
  input.messages = "[";
  EXPECT_NE(MessageOf(MustParse(kPlain)->Render(input)).find("messages is not JSON"),
            std::string::npos);
  input.messages = "[]";
  input.tools = "{}";
  EXPECT_NE(MessageOf(MustParse(kPlain)->Render(input)).find("tools must be a list"),
            std::string::npos);
  input.tools = "";
  input.extra = "[]";
  EXPECT_NE(MessageOf(MustParse(kPlain)->Render(input)).find("chat_template_kwargs"),
            std::string::npos);
}

}  // namespace
}  // namespace thresher
