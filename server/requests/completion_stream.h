// A running request on the consumer's side: tokens back to text, stop strings, log-probabilities
// and usage, for all choices of all its prompts. Knows no wire.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/text/detokenizer.h"
#include "engine/text/stop_strings.h"
#include "server/requests/request_mapping.h"

namespace thresher {

struct TokenRecord {
  TokenId token = 0;
  std::optional<TokenLogprobs> logprobs;  // absent for a prompt's first token, or if not asked for
  int text_offset = 0;                    // code points of the choice's text before it
};

// What one choice got. The strings and vectors are reused from poll to poll.
struct ChoiceUpdate {
  int index = 0;
  bool first = false;                      // the choice's first update
  std::string text;                        // with echo, the first begins with the prompt
  std::vector<TokenRecord> tokens;         // generated; the end or stop token is not among them
  std::vector<TokenRecord> prompt_tokens;  // on the first, if the prompt's are to be told
  std::optional<FinishReason> finish;      // kStop or kLength, on the last
  // What ended it, unless the model's own end token or the length.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
};

struct StreamUsage {
  int prompt_tokens = 0;
  int completion_tokens = 0;  // an end or stop token counts
  int cached_tokens = 0;
  std::string prefill_policy, decode_policy;
  std::optional<int> k;
  AttentionCounts attention;  // of all choices
};

// One thread at a time, except Cancel. Destroying it cancels what still runs. The engine outlives
// it.
class CompletionStream final {
 public:
  // Submits every prompt, or none. Errors of Engine::Submit. `listener` may be null; see Submit.
  static absl::StatusOr<std::unique_ptr<CompletionStream>> Start(Engine& engine,
                                                                 MappedRequest request,
                                                                 StreamListener* listener,
                                                                 std::uint64_t tag);
  ~CompletionStream();

  // Fills `updates` with what has come since, at most one a choice and none without news. Never
  // blocks. True while more may come; the engine's error if a choice failed, after which the
  // stream is over.
  absl::StatusOr<bool> Poll(std::vector<ChoiceUpdate>& updates);
  // Blocks until Poll has news or the time has passed.
  void Wait(absl::Duration timeout);
  void Cancel();

  // Complete once Poll returned false.
  StreamUsage usage() const;
  const MappedRequest& request() const { return request_; }
  int num_choices() const { return static_cast<int>(choices_.size()); }

 private:
  struct Choice {
    Choice(const Tokenizer& tokenizer, const OutputOptions& output);
    Detokenizer detokenizer;
    std::optional<StopStringMatcher> stops;
    int num_tokens = 0;   // generated, the end or stop token included
    int text_length = 0;  // code points of the tokens so far, held back ones included
    bool started = false;
    bool ended = false;
  };
  CompletionStream(Engine& engine, MappedRequest request);
  void TakeEvent(Choice& choice, TokenEvent& event, ChoiceUpdate& update);
  void AddPrompt(int prompt_index, ChoiceUpdate& update, Choice& choice);

  const Tokenizer& tokenizer_;
  MappedRequest request_;
  std::vector<std::unique_ptr<RequestHandle>> handles_;  // one a prompt
  std::vector<Choice> choices_;                          // prompt-major
  std::vector<TokenEvent> events_;
  std::vector<int> update_of_;  // index into the updates of this poll, -1 for none
  std::string piece_;
  int num_open_ = 0;
};

}  // namespace thresher
