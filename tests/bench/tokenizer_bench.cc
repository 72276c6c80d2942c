// Speed of tokenizing and detokenizing mixed text. One JSON line: medians after a warm-up, in CPU
// time of the one thread at work, so that what else runs on the machine does not count.
//   tokenizer_bench MODEL.gguf [MEGABYTES]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/text/tokenizer.h"

namespace thresher {
namespace {

// Prose, code, numbers, other scripts; the counter keeps words from being all the same.
std::string MixedText(std::size_t num_bytes) {
  std::string text;
  for (int i = 0; text.size() < num_bytes; ++i) {
    const std::string n = std::to_string(i * 7919);
    text += "The engine's batch number " + n + " was scheduled, didn't it?\n\n";
    text += "for (int i = 0; i < " + n + "; ++i) {\n    sum_" + n + " += values[i] * 3.14159;\n}\n";
    text += "{\"id\": \"req-" + n + "\", \"tokens\": [1, 22, 333], \"done\": true}\n";
    text += "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE " + n +
            " \xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xF0\x9F\x98\x80\n";
  }
  return text;
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Run>
double MedianSeconds(Run run) {
  constexpr int kRuns = 9;
  run();
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    const double begin = ThreadSeconds();
    run();
    seconds.push_back(ThreadSeconds() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

int Run(const std::string& path, double megabytes) {
  const auto file = GgufFile::Open(path);
  if (!file.ok()) {
    std::fprintf(stderr, "%s\n", file.status().ToString().c_str());
    return 1;
  }
  const double begin = ThreadSeconds();
  const auto tokenizer = TokenizerFromGguf(**file);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  const double load_ms = 1e3 * (ThreadSeconds() - begin);
  const std::string text = MixedText(static_cast<std::size_t>(megabytes * 1e6));
  std::vector<TokenId> ids;
  const double encode = MedianSeconds([&] {
    ids.clear();
    if (!(*tokenizer)->Encode(text, {}, ids).ok()) std::abort();
  });
  std::string decoded;
  const double decode = MedianSeconds([&] { decoded = Decode(**tokenizer, ids, true); });
  std::printf(
      "{\"bench\": \"tokenizer\", \"bytes\": %zu, \"tokens\": %zu, \"load_ms\": %.1f, "
      "\"encode_mb_s\": %.1f, \"decode_mb_s\": %.1f, \"round_trip\": %s}\n",
      text.size(), ids.size(), load_ms, static_cast<double>(text.size()) / encode / 1e6,
      static_cast<double>(text.size()) / decode / 1e6, decoded == text ? "true" : "false");
  return decoded == text ? 0 : 1;
}

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tokenizer_bench MODEL.gguf [MEGABYTES]\n");
    return 2;
  }
  return thresher::Run(argv[1], argc > 2 ? std::atof(argv[2]) : 4);
}
