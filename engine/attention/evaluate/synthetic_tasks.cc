#include "engine/attention/evaluate/synthetic_tasks.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr const char* kWords[] = {
    "anchor",  "basket",   "candle",  "desert",   "engine",   "forest", "garden",  "harbor",
    "island",  "jacket",   "kettle",  "ladder",   "marble",   "needle", "orange",  "pepper",
    "quartz",  "ribbon",   "saddle",  "tunnel",   "velvet",   "walnut", "yellow",  "zipper",
    "bridge",  "copper",   "dragon",  "feather",  "glacier",  "hammer", "insect",  "jungle",
    "kitchen", "lantern",  "meadow",  "notebook", "oyster",   "pirate", "rocket",  "silver",
    "timber",  "umbrella", "village", "window",   "blanket",  "camera", "diamond", "elephant",
    "falcon",  "guitar",   "helmet",  "iceberg",  "kangaroo", "lizard", "magnet",  "nectar",
    "octopus", "pillow",   "rabbit",  "spider",   "tomato",   "violin", "wizard"};

// The library's distributions may differ by release; tasks must not.
class Dice final {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t Below(std::size_t limit) {
    return static_cast<std::size_t>((random_() >> 32) * limit >> 32);
  }
  std::string Number() { return absl::StrCat(100000 + Below(900000)); }

 private:
  std::mt19937_64 random_;
};

// `count` different words.
std::vector<std::string> DrawWords(Dice& dice, std::size_t count) {
  std::vector<std::string> words(std::begin(kWords), std::end(kWords));
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(words[i], words[i + dice.Below(words.size() - i)]);
  }
  words.resize(count);
  return words;
}

std::size_t SpaceAfter(std::string_view text, std::size_t from) {
  const std::size_t at = text.find(' ', std::min(from, text.size()));
  return at == std::string_view::npos ? text.size() : at;
}

std::string_view CutHaystack(Dice& dice, std::string_view haystack, std::size_t num_bytes) {
  if (haystack.size() <= num_bytes) return haystack;
  const std::size_t first = SpaceAfter(haystack, dice.Below(haystack.size() - num_bytes));
  return haystack.substr(first, SpaceAfter(haystack, first + num_bytes) - first);
}

// The facts, in order, at places spread over the text: one in each of equal stretches.
std::string Hide(Dice& dice, std::string_view text, const std::vector<std::string>& facts) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const std::size_t begin = text.size() * i / facts.size();
    const std::size_t end = text.size() * (i + 1) / facts.size();
    const std::size_t at =
        std::max(done, SpaceAfter(text, begin + dice.Below(std::max<std::size_t>(1, end - begin))));
    absl::StrAppend(&result, std::string(text.substr(done, at - done)), "\n", facts[i], "\n");
    done = at;
  }
  return absl::StrCat(result, std::string(text.substr(done)));
}

Task MakeNeedle(Dice& dice, std::string_view text, std::size_t num_facts) {
  const std::vector<std::string> keys = DrawWords(dice, num_facts);
  std::vector<std::string> numbers, facts;
  for (const std::string& key : keys) {
    numbers.push_back(dice.Number());
    facts.push_back(absl::StrCat("The secret number of the ", key, " is ", numbers.back(), "."));
  }
  const std::size_t asked = dice.Below(num_facts);
  return {absl::StrCat("Remember the secret numbers in this text.\n\n", Hide(dice, text, facts),
                       "\n\nQuestion: what is the secret number of the ", keys[asked],
                       "?\nAnswer: The secret number of the ", keys[asked], " is"),
          {numbers[asked]}};
}

Task MakeVariableTracking(Dice& dice, std::string_view text) {
  constexpr std::size_t kChain = 4;
  std::vector<std::string> names = DrawWords(dice, 2 * kChain);
  for (std::string& name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  }
  const std::string value = dice.Number(), other = dice.Number();
  std::vector<std::string> facts;
  for (std::size_t i = 0; i < kChain; ++i) {
    const auto assign = [&](const std::string& name, const std::string& from,
                            const std::string& number) {
      return absl::StrCat("ASSIGN ", name, " = ", i == 0 ? number : from);
    };
    facts.push_back(assign(names[i], i == 0 ? "" : names[i - 1], value));
    facts.push_back(assign(names[kChain + i], i == 0 ? "" : names[kChain + i - 1], other));
  }
  return {absl::StrCat("Follow the assignments in this text.\n\n", Hide(dice, text, facts),
                       "\n\nQuestion: which names hold the value ", value,
                       "?\nAnswer: The names that hold the value ", value, " are"),
          std::vector<std::string>(names.begin(), names.begin() + kChain)};
}

Task MakeCommonWords(Dice& dice, std::size_t num_bytes) {
  constexpr std::size_t kCommon = 3;
  const std::vector<std::string> words = DrawWords(dice, std::size(kWords));
  std::string list;
  for (std::size_t number = 1; list.size() < num_bytes; ++number) {
    // Each common word has a share of one sixth; the others share the rest.
    const std::size_t face = dice.Below(6);
    const std::string& word =
        face < kCommon ? words[face] : words[kCommon + dice.Below(words.size() - kCommon)];
    absl::StrAppend(&list, number, ". ", word, "\n");
  }
  return {absl::StrCat("Count the words of this list.\n\n", list, "\nQuestion: which ", kCommon,
                       " words does the list repeat most often?\nAnswer: The ", kCommon,
                       " most frequent words are"),
          std::vector<std::string>(words.begin(), words.begin() + kCommon)};
}

bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool ContainsWord(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !IsWordByte(text[at - 1])) && (end == text.size() || !IsWordByte(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view Name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kSingleNeedle:
      return "needle_single";
    case TaskKind::kMultiKeyNeedle:
      return "needle_multi_key";
    case TaskKind::kVariableTracking:
      return "variable_tracking";
    case TaskKind::kCommonWords:
      return "common_words";
  }
  return "";
}

Task MakeTask(TaskKind kind, std::uint64_t seed, std::string_view haystack,
              std::size_t haystack_bytes) {
  Dice dice(seed * 4 + static_cast<std::uint64_t>(kind));
  if (kind == TaskKind::kCommonWords) return MakeCommonWords(dice, haystack_bytes);
  const std::string_view text = CutHaystack(dice, haystack, haystack_bytes);
  if (kind == TaskKind::kVariableTracking) return MakeVariableTracking(dice, text);
  return MakeNeedle(dice, text, kind == TaskKind::kSingleNeedle ? 1 : 4);
}

double ScoreAnswer(const Task& task, std::string_view text) {
  const auto found = std::count_if(task.answers.begin(), task.answers.end(),
                                   [&](const std::string& a) { return ContainsWord(text, a); });
  return static_cast<double>(found) / static_cast<double>(task.answers.size());
}

}  // namespace thresher
