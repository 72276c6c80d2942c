// Templates that would never end, or end the process, stop at a limit with an error.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json_value.h"
#include "engine/text/jinja/parser.h"

namespace thresher::jinja {
namespace {

std::string Times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// The message of the failure; empty if there is none.
std::string FailureOf(const std::string& source) {
  auto parsed = Parse(source);
  if (!parsed.ok()) return std::string(parsed.status().message());
  Interpreter interpreter(*parsed, Limits(), Clock{absl::UnixEpoch(), absl::UTCTimeZone()});
  auto output = interpreter.Run({{"s", Value::String("text")}});
  return output.ok() ? "" : std::string(output.status().message());
}

void ExpectFailure(const std::string& source, const std::string& part) {
  std::string message = FailureOf(source);
  EXPECT_NE(message.find(part), std::string::npos) << "is: '" << message << "'";
}

TEST(JinjaHostile, LoopsStopAtTheStepLimit) {
  ExpectFailure("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                "steps");
  ExpectFailure(Times("{% for a in range(1000) %}", 6) + "x" + Times("{% endfor %}", 6), "steps");
}

TEST(JinjaHostile, RangesAreBounded) {
  ExpectFailure("{{ range(200000000) }}", "Range too big");
  ExpectFailure("{{ range(-9223372036854775807, 9223372036854775807) }}", "Range too big");
  EXPECT_EQ(FailureOf("{{ range(9223372036854775807, -9223372036854775807, "
                      "-9223372036854775807) }}"),
            "");
}

TEST(JinjaHostile, TextsAreBounded) {
  ExpectFailure("{{ 'x' * 200000000 }}", "bytes");
  ExpectFailure("{{ 'xy' * 9223372036854775807 }}", "bytes");
  ExpectFailure("{{ s.ljust(9223372036854775807) }}", "bytes");
  ExpectFailure("{{ s.zfill(200000000) }}", "bytes");
  ExpectFailure("{{ s | indent(200000000) }}", "bytes");
  ExpectFailure("{% set x = 'a' * 5000 %}{{ x | replace('a', 'a' * 20000) }}", "bytes");
  ExpectFailure("{{ '%1001d' % 1 }}", "1000");
  ExpectFailure(
      "{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
      "{% endfor %}",
      "bytes");
  ExpectFailure("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "bytes");
}

TEST(JinjaHostile, ListsAreBounded) {
  ExpectFailure("{{ [0] * 9223372036854775807 }}", "steps");
  ExpectFailure(
      "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}",
      "limit of");
  // Each holds the one before twice: few objects, but no end to a walk over them.
  ExpectFailure(
      "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x }}",
      "parts");
}

TEST(JinjaHostile, NestingOfValuesIsBounded) {
  for (const char* value : {"[ns.x]", "(ns.x,)", "{'a': ns.x}"}) {
    ExpectFailure(
        std::string("{% set ns = namespace(x=1) %}{% for a in range(99999) %}{% set ns.x = ") +
            value + " %}{% endfor %}",
        "nested");
  }
  ExpectFailure(
      "{% set ns = namespace(x=1) %}{% for a in range(9999) %}{% for b in [ns.x] %}"
      "{% set ns.x = loop %}{% endfor %}{% endfor %}",
      "nested");
}

TEST(JinjaHostile, WhatHoldsItselfIsFreedAndShownInFinite) {
  ExpectFailure("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}", "holds itself");
  EXPECT_EQ(FailureOf("{% set ns = namespace(x=1) %}{% for a in range(50000) %}"
                      "{% set ns.x = namespace(x=ns.x) %}{% endfor %}"),
            "");
  EXPECT_EQ(FailureOf("{% macro m(x) %}{% macro k() %}{{ x }}{% endmacro %}{% set ns.m = k %}"
                      "{% endmacro %}{% set ns = namespace() %}"
                      "{% for a in range(3000) %}{{ m(ns.m) }}{% endfor %}"),
            "");
}

TEST(JinjaHostile, RecursionIsBounded) {
  ExpectFailure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "inside each other");
  ExpectFailure(
      "{% macro m() %}{% set c = caller %}{% call m() %}{{ c() }}{% endcall %}{% endmacro %}"
      "{% call m() %}{% endcall %}",
      "inside each other");
  ExpectFailure(
      "{% macro a() %}{% if 1 %}{% for x in [1] %}{{ [a()] }}{% endfor %}{% endif %}"
      "{% endmacro %}{{ a() }}",
      "inside each other");
}

TEST(JinjaHostile, NestingOfTheSourceIsBounded) {
  ExpectFailure("{{ " + Times("(", 20000) + "1" + Times(")", 20000) + " }}", "inside each other");
  ExpectFailure("{{ " + Times("[", 20000) + Times("]", 20000) + " }}", "inside each other");
  ExpectFailure("{{ " + Times("{1:", 20000) + "1" + Times("}", 20000) + " }}", "inside each other");
  ExpectFailure("{{ " + Times("-", 20000) + "1 }}", "inside each other");
  ExpectFailure("{{ " + Times("not ", 20000) + "1 }}", "inside each other");
  ExpectFailure("{{ 1" + Times(" + 1", 20000) + " }}", "nested");
  ExpectFailure("{{ 1" + Times(" or 1", 20000) + " }}", "nested");
  ExpectFailure("{{ s" + Times("|upper", 20000) + " }}", "nested");
  ExpectFailure("{{ s" + Times(".x", 20000) + " }}", "nested");
  ExpectFailure("{{ s" + Times("()", 20000) + " }}", "nested");
  ExpectFailure("{{ 1" + Times(" if 1", 20000) + " }}", "nested");
  ExpectFailure("{{ 1" + Times(" if 1 else 1", 20000) + " }}", "inside each other");
  ExpectFailure(Times("{% if 1 %}", 20000), "inside each other");
  ExpectFailure(Times("{% for x in s %}", 20000), "inside each other");
  ExpectFailure(Times("{% macro m() %}", 20000), "inside each other");
  ExpectFailure(Times("{% set x %}", 20000), "inside each other");
}

TEST(JinjaHostile, SearchesAreLinear) {
  // Each would take minutes if every place were tried to its end.
  EXPECT_EQ(FailureOf("{% set t = 'a' * 200000 %}{% set p = 'a' * 500000 ~ 'b' %}"
                      "{{ p in t }}{{ t.find(p) }}{{ t.rfind(p) }}{{ t.count(p) }}"
                      "{{ t.split(p) | length }}{{ t.replace(p, '') | length }}"
                      "{{ t.strip(p) | length }}"),
            "");
}

TEST(JinjaHostile, JsonIsBounded) {
  EXPECT_FALSE(ParseJson(Times("[", 20000) + Times("]", 20000), "x").ok());
  EXPECT_FALSE(ParseJson(Times("{\"a\":", 20000), "x").ok());
  EXPECT_FALSE(ParseJson("[1,", "x").ok());
  EXPECT_FALSE(ParseJson("\"\xff\"", "x").ok());
  EXPECT_FALSE(ParseJson("", "x").ok());
}

TEST(JinjaHostile, IntegersPast64BitsAreErrors) {
  for (const char* source :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "3037000500 * 3037000500", "2 ** 63",
        "9223372036854775808", "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1) // -1",
        "(-9223372036854775807 - 1) | abs", "1e19 | int", "'%d' % 1e19", "'%d' % (1e308 * 10)",
        "'%d' % (1e308 * 10 - 1e308 * 10)"}) {
    ExpectFailure(std::string("{{ ") + source + " }}", "64 bits");
  }
  EXPECT_EQ(FailureOf("{{ (-9223372036854775807 - 1) % -1 }}"), "");
}

}  // namespace
}  // namespace thresher::jinja
