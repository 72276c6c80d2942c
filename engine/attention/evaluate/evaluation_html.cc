// The page is written by hand: it must open without a network, and has two kinds of plots.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/attention/evaluate/evaluation_report.h"

namespace thresher {
namespace {

constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#2e933c", "#b07d12",
                                    "#6d4aa2", "#00798c", "#8d5524", "#555555"};
constexpr int kPlotWidth = 560, kPlotHeight = 320, kMargin = 56;

const char* ColourOf(std::size_t index) { return kColours[index % std::size(kColours)]; }

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Percent(double share) { return absl::StrFormat("%.2f %%", 100 * share); }

std::string PolicyText(const PolicyChoice& choice) {
  std::string text = choice.policy;
  for (const auto& [name, value] : choice.parameters) absl::StrAppend(&text, " ", name, "=", value);
  return text;
}

std::string Table(const EvaluationReport& report) {
  std::string html =
      "<table><tr><th>choice</th><th>prefill</th><th>decode</th><th>V rows read (by a head "
      "alone)</th>"
      "<th>blocks read</th><th>perplexity</th><th>increase (95 %)</th><th>KL, nats (95 %)</th>"
      "<th>same top token</th><th>output error</th>";
  for (const auto& task : report.dense_tasks) {
    absl::StrAppend(&html, "<th>", Escape(task.first), "</th>");
  }
  absl::StrAppend(&html, "</tr><tr><td>dense</td><td>dense</td><td>dense</td><td>100 %</td>",
                  "<td>100 %</td><td>", absl::StrFormat("%.3f", report.dense_perplexity),
                  "</td><td></td><td></td><td></td><td></td>");
  for (const auto& task : report.dense_tasks) {
    absl::StrAppend(&html, "<td>", absl::StrFormat("%.2f", task.second), "</td>");
  }
  absl::StrAppend(&html, "</tr>\n");
  for (std::size_t i = 0; i < report.choices.size(); ++i) {
    const ChoiceReading& r = report.choices[i];
    absl::StrAppend(
        &html, "<tr><td><span style=\"color:", ColourOf(i), "\">&#9632;</span> ", Escape(r.name),
        "</td><td>", Escape(PolicyText(r.choice.prefill)), "</td><td>",
        Escape(PolicyText(r.choice.decode)), "</td><td>", Percent(r.value_row_share), " (",
        Percent(r.value_row_share_of_heads), ")</td><td>", Percent(r.block_density), "</td><td>",
        absl::StrFormat("%.3f", r.perplexity), "</td><td>", Percent(r.perplexity_increase.mean),
        " (", Percent(r.perplexity_increase.lower), " to ", Percent(r.perplexity_increase.upper),
        ")</td><td>", absl::StrFormat("%.5f (%.5f to %.5f)", r.kl.mean, r.kl.lower, r.kl.upper),
        "</td><td>", Percent(r.top_agreement.mean), "</td><td>", Percent(r.output_error), "</td>");
    for (const auto& task : r.tasks) {
      absl::StrAppend(&html, "<td>", absl::StrFormat("%.2f", task.second), "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  return html + "</table>\n";
}

// How well lists of blocks were chosen; nothing if no choice has any.
std::string ListTable(const EvaluationReport& report) {
  std::string rows;
  for (std::size_t i = 0; i < report.choices.size(); ++i) {
    const ChoiceReading& r = report.choices[i];
    if (!r.lists.has_value()) continue;
    absl::StrAppend(
        &rows, "<tr><td><span style=\"color:", ColourOf(i), "\">&#9632;</span> ", Escape(r.name),
        "</td><td>", r.lists->num_lists, "</td><td>", Percent(r.block_density), "</td><td>",
        r.lists->kendall_tau.has_value() ? absl::StrFormat("%.3f", *r.lists->kendall_tau) : "",
        "</td><td>", Percent(r.lists->removal_recall), "</td><td>", Percent(r.lists->mass_recall),
        "</td><td>", Percent(r.lists->output_error), "</td></tr>\n");
  }
  if (rows.empty()) return rows;
  return absl::StrCat(
      "<h2>How blocks were chosen</h2>\n<p>Sampled rows of lists that leave blocks out. The exact "
      "order of blocks is what a row's output loses without each; tau is Kendall's, of the scores "
      "against it.</p>\n<table><tr><th>choice</th><th>lists</th><th>blocks read</th><th>tau</th>"
      "<th>costliest blocks read</th><th>softmax mass read</th><th>output error of a head</th></tr>"
      "\n",
      rows, "</table>\n");
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor,
                         Escape(text));
}

std::string Frame(const std::string& title, const std::string& x_label, const std::string& inside) {
  return absl::StrFormat(
      "<svg width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"%s\">%s%s"
      "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"#333\"/>%s</svg>\n",
      kPlotWidth, kPlotHeight, Escape(title), Text(kMargin, 18, "start", title),
      Text(kPlotWidth / 2.0, kPlotHeight - 8, "middle", x_label), kMargin, 28,
      kPlotHeight - kMargin + 12, kPlotWidth - 12, inside);
}

double XOf(double share) { return kMargin + share * (kPlotWidth - kMargin - 24); }
double YOf(double share) {
  const double bottom = kPlotHeight - kMargin + 12;
  return bottom - share * (bottom - 36);
}

// Cost to the right, loss upwards: down and left is better.
std::string CostAgainstLoss(const EvaluationReport& report, bool prefill) {
  double most = 1e-9;
  for (const ChoiceReading& r : report.choices) most = std::max(most, r.kl.upper);
  std::string inside;
  for (int i = 0; i <= 4; ++i) {
    absl::StrAppend(
        &inside, Text(XOf(i / 4.0), YOf(0) + 16, "middle", absl::StrCat(25 * i, " %")),
        Text(kMargin - 6, YOf(i / 4.0) + 4, "end", absl::StrFormat("%.2g", most * i / 4)));
  }
  for (std::size_t i = 0; i < report.choices.size(); ++i) {
    const ChoiceReading& r = report.choices[i];
    const double x = XOf(prefill ? r.block_density : r.value_row_share);
    absl::StrAppendFormat(
        &inside,
        "<path d=\"M%.1f %.1f V%.1f\" stroke=\"%s\"/>"
        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"><title>%s</title></circle>",
        x, YOf(std::max(0.0, r.kl.lower) / most), YOf(r.kl.upper / most), ColourOf(i), x,
        YOf(r.kl.mean / most), ColourOf(i), Escape(r.name));
  }
  return Frame("KL(dense || choice) in nats, with its 95 % interval",
               prefill ? "prefill blocks read" : "V rows read in decode", inside);
}

// A line for each choice over the buckets of row lengths.
template <typename Value>
std::string ByLength(const EvaluationReport& report, const std::string& title, double reference,
                     const Value& value) {
  double most = std::max(1e-9, reference);
  std::size_t num_buckets = 1;
  for (const ChoiceReading& r : report.choices) {
    num_buckets = std::max(num_buckets, r.buckets.size());
    for (const LengthBucketReading& bucket : r.buckets) most = std::max(most, value(bucket));
  }
  const auto x_of = [&](std::size_t bucket) {
    return XOf((static_cast<double>(bucket) + 0.5) / static_cast<double>(num_buckets));
  };
  std::string inside;
  for (int i = 0; i <= 4; ++i) {
    absl::StrAppend(
        &inside, Text(kMargin - 6, YOf(i / 4.0) + 4, "end", absl::StrFormat("%.2g", most * i / 4)));
  }
  if (reference > 0) {
    absl::StrAppendFormat(&inside,
                          "<path d=\"M%d %.1f H%d\" stroke=\"#999\" stroke-dasharray=\"4\"/>",
                          kMargin, YOf(reference / most), kPlotWidth - 12);
  }
  for (std::size_t i = 0; i < report.choices.size(); ++i) {
    std::string line;
    const std::vector<LengthBucketReading>& buckets = report.choices[i].buckets;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (i == 0) absl::StrAppend(&inside, Text(x_of(b), YOf(0) + 16, "middle", buckets[b].label));
      if (buckets[b].num_tokens == 0) continue;
      absl::StrAppendFormat(&line, "%s%.1f %.1f", line.empty() ? "M" : " L", x_of(b),
                            YOf(value(buckets[b]) / most));
    }
    absl::StrAppendFormat(&inside,
                          "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\">"
                          "<title>%s</title></path>",
                          line, ColourOf(i), Escape(report.choices[i].name));
  }
  return Frame(title, "row length in tokens", inside);
}

}  // namespace

std::string ReportAsHtml(const EvaluationReport& report) {
  std::string texts;
  for (const std::string& text : report.texts) {
    absl::StrAppend(&texts, texts.empty() ? "" : ", ", text);
  }
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Sparse attention of ",
      Escape(report.model),
      "</title>\n<style>body{font:15px/1.5 sans-serif;margin:2em;max-width:1200px}"
      "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:3px 8px;text-align:left}"
      "svg{font:12px sans-serif;margin:8px}code{background:#f3f3f3}</style>\n<h1>Sparse attention "
      "of ",
      Escape(report.model), "</h1>\n<p>", report.num_windows, " windows of ", report.window_tokens,
      " tokens from ", Escape(texts), "; the first ", report.prompt_tokens,
      " are the prompt; positions from ", report.first_position, " on count: ", report.num_tokens,
      " tokens. Every position has the text itself before it, and is compared with dense attention "
      "over the same text.</p>\n<p><code>",
      Escape(report.command), "</code></p>\n");
  absl::StrAppend(&html, Table(report), "<h2>What it costs and what it loses</h2>\n",
                  CostAgainstLoss(report, false), CostAgainstLoss(report, true), ListTable(report),
                  "<h2>By row length</h2>\n");
  using Bucket = LengthBucketReading;
  absl::StrAppend(&html, ByLength(report, "KL in nats", 0, [](const Bucket& b) { return b.kl; }),
                  ByLength(report, "survivors / k: 1 is on target", 1,
                           [](const Bucket& b) { return b.selected_per_target; }),
                  ByLength(report, "share of V rows read", 1,
                           [](const Bucket& b) { return b.value_row_share; }),
                  ByLength(report, "attention mass left out", 0,
                           [](const Bucket& b) { return b.dropped_mass; }));
  return html + "</html>\n";
}

}  // namespace thresher
