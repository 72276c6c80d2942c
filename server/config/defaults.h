// The value of every setting that is not given.
#pragma once

#include "thresher/v1/config.pb.h"

namespace thresher {

v1::ServeConfig DefaultServeConfig();
v1::GenerateConfig DefaultGenerateConfig();
v1::EvaluateConfig DefaultEvaluateConfig();
v1::CalibrateConfig DefaultCalibrateConfig();
v1::BenchServeConfig DefaultBenchServeConfig();
v1::BenchOfflineConfig DefaultBenchOfflineConfig();
v1::BenchStepConfig DefaultBenchStepConfig();
v1::BenchSchedulerConfig DefaultBenchSchedulerConfig();

}  // namespace thresher
