#include "server/metrics/text_format.h"

#include <prometheus/metric_family.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace thresher {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void AppendNumber(double value, std::string& text) {
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value < 0 ? "-Inf" : "+Inf";
  } else {
    // The shortest of all forms would write 0.0005 as 5e-04.
    const double size = std::abs(value);
    const bool plain = size == 0 || (size >= 1e-6 && size < 1e15);
    const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
    char digits[40];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value, format);
    text.append(digits, end.ptr);
  }
}

// Line breaks and backslashes everywhere, quotes inside a label.
void AppendEscaped(std::string_view value, bool label, std::string& text) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '\\' || (label && c == '"')) text += '\\';
      text += c;
    }
  }
}

// NAME{labels} and a space. `bound`, if not null, is the label le of a bucket.
void AppendSeries(const std::string& name, const char* suffix, const ClientMetric& metric,
                  const double* bound, std::string& text) {
  text.append(name).append(suffix);
  char before = '{';
  for (const ClientMetric::Label& label : metric.label) {
    text += before;
    text.append(label.name).append("=\"");
    AppendEscaped(label.value, true, text);
    text += '"';
    before = ',';
  }
  if (bound != nullptr) {
    text += before;
    text += "le=\"";
    AppendNumber(*bound, text);
    text += '"';
    before = ',';
  }
  text += before == '{' ? " " : "} ";
}

void AppendLine(const std::string& name, const char* suffix, const ClientMetric& metric,
                const double* bound, double value, std::string& text) {
  AppendSeries(name, suffix, metric, bound, text);
  AppendNumber(value, text);
  text += '\n';
}

void AppendHistogram(const std::string& name, const ClientMetric& metric, std::string& text) {
  const ClientMetric::Histogram& histogram = metric.histogram;
  const auto count = static_cast<double>(histogram.sample_count);
  bool has_last = false;
  for (const ClientMetric::Bucket& bucket : histogram.bucket) {
    AppendLine(name, "_bucket", metric, &bucket.upper_bound,
               static_cast<double>(bucket.cumulative_count), text);
    has_last = std::isinf(bucket.upper_bound);
  }
  const double infinity = HUGE_VAL;
  if (!has_last) AppendLine(name, "_bucket", metric, &infinity, count, text);
  AppendLine(name, "_sum", metric, nullptr, histogram.sample_sum, text);
  AppendLine(name, "_count", metric, nullptr, count, text);
}

}  // namespace

std::string PrometheusText(const std::vector<MetricFamily>& families) {
  std::string text;
  for (const MetricFamily& family : families) {
    const char* type = family.type == MetricType::Counter ? "counter"
                       : family.type == MetricType::Gauge ? "gauge"
                                                          : "histogram";
    text.append("# HELP ").append(family.name).append(" ");
    AppendEscaped(family.help, false, text);
    text.append("\n# TYPE ").append(family.name).append(" ").append(type).append("\n");
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Counter) {
        AppendLine(family.name, "", metric, nullptr, metric.counter.value, text);
      } else if (family.type == MetricType::Gauge) {
        AppendLine(family.name, "", metric, nullptr, metric.gauge.value, text);
      } else {
        AppendHistogram(family.name, metric, text);
      }
    }
  }
  return text;
}

}  // namespace thresher
