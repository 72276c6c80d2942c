// Metrics in the Prometheus text format, version 0.0.4.
#pragma once

#include <string>
#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace thresher {

// Counters, gauges and histograms. A number is the shortest decimal that reads back as the same
// double, so that a bucket's bound reads as it was written: the library's own writer makes
// 0.0089999999999999993 of 0.009.
std::string PrometheusText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace thresher
