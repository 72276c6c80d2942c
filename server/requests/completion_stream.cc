#include "server/requests/completion_stream.h"

#include <algorithm>

namespace thresher {
namespace {

int CountCodePoints(std::string_view utf8) {
  int count = 0;
  for (unsigned char byte : utf8) count += (byte & 0xC0) != 0x80;
  return count;
}

bool Contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

CompletionStream::Choice::Choice(const Tokenizer& tokenizer, const OutputOptions& output)
    : detokenizer(tokenizer, output.skip_special_tokens, output.start) {
  if (!output.stop.empty()) stops.emplace(output.stop, output.include_stop_in_output);
}

CompletionStream::CompletionStream(Engine& engine, MappedRequest request)
    : tokenizer_(engine.tokenizer()), request_(std::move(request)) {
  for (const GenerationRequest& one : request_.requests) {
    for (int i = 0; i < one.n; ++i) choices_.emplace_back(tokenizer_, request_.output);
  }
  update_of_.assign(choices_.size(), -1);
  num_open_ = static_cast<int>(choices_.size());
}

CompletionStream::~CompletionStream() = default;

absl::StatusOr<std::unique_ptr<CompletionStream>> CompletionStream::Start(Engine& engine,
                                                                          MappedRequest request,
                                                                          StreamListener* listener,
                                                                          std::uint64_t tag) {
  std::unique_ptr<CompletionStream> stream(new CompletionStream(engine, std::move(request)));
  absl::StatusOr<std::vector<std::unique_ptr<RequestHandle>>> handles =
      engine.SubmitTogether(stream->request_.requests, listener, tag);
  if (!handles.ok()) return handles.status();
  stream->handles_ = *std::move(handles);
  return stream;
}

void CompletionStream::AddPrompt(int prompt_index, ChoiceUpdate& update, Choice& choice) {
  const OutputOptions& output = request_.output;
  const std::vector<TokenId>& prompt = request_.requests[prompt_index].prompt;
  const PromptLogprobs* logprobs = handles_[prompt_index]->prompt_logprobs();
  if ((output.echo && output.logprobs) || output.prompt_logprobs) {
    Detokenizer detokenizer(tokenizer_, output.skip_special_tokens);
    std::string text;
    int offset = 0;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      TokenRecord record{.token = prompt[i], .logprobs = {}, .text_offset = offset};
      if (logprobs != nullptr && i < logprobs->size()) record.logprobs = (*logprobs)[i];
      update.prompt_tokens.push_back(std::move(record));
      text.clear();
      detokenizer.Append(prompt[i], text);
      offset += CountCodePoints(text);
    }
  }
  if (output.echo) {
    update.text = request_.echo_texts[prompt_index];
    choice.text_length = CountCodePoints(update.text);
  }
}

void CompletionStream::TakeEvent(Choice& choice, TokenEvent& event, ChoiceUpdate& update) {
  const OutputOptions& output = request_.output;
  std::optional<int> stop_index;
  if (event.token.has_value()) {
    ++choice.num_tokens;
    update.tokens.push_back(TokenRecord{.token = *event.token,
                                        .logprobs = std::move(event.logprobs),
                                        .text_offset = choice.text_length});
    piece_.clear();
    choice.detokenizer.Append(*event.token, piece_);
    choice.text_length += CountCodePoints(piece_);
    if (choice.stops.has_value() && choice.num_tokens > output.min_tokens) {
      stop_index = choice.stops->Append(piece_, update.text);
    } else {
      update.text += piece_;
    }
  }
  if (event.finish.has_value() && !stop_index.has_value()) {
    piece_.clear();
    choice.detokenizer.Finish(piece_);
    if (choice.stops.has_value()) {
      if (!piece_.empty()) stop_index = choice.stops->Append(piece_, update.text);
      if (!stop_index.has_value()) choice.stops->Finish(update.text);
    } else {
      update.text += piece_;
    }
    update.finish = event.finish;
    if (event.stop_token.has_value()) {
      ++choice.num_tokens;
      const std::vector<TokenId>& asked = request_.requests[0].stop_token_ids;
      if (Contains(asked, *event.stop_token)) update.stop_reason = *event.stop_token;
    }
  }
  if (stop_index.has_value()) {
    update.finish = FinishReason::kStop;
    update.stop_reason = output.stop[*stop_index];
  }
}

absl::StatusOr<bool> CompletionStream::Poll(std::vector<ChoiceUpdate>& updates) {
  // Buffers of earlier updates are kept for reuse: a stream in steady state allocates nothing.
  std::size_t num_updates = 0;
  std::fill(update_of_.begin(), update_of_.end(), -1);
  int base = 0;
  for (std::size_t p = 0; p < handles_.size(); ++p) {
    events_.clear();
    handles_[p]->Poll(events_);
    for (TokenEvent& event : events_) {
      const int index = base + event.choice;
      Choice& choice = choices_[index];
      if (choice.ended) continue;  // its stop string was found; the engine ran a step more
      if (!event.status.ok()) {
        Cancel();
        return event.status;
      }
      if (update_of_[index] < 0) {
        update_of_[index] = static_cast<int>(num_updates++);
        if (updates.size() < num_updates) updates.emplace_back();
        ChoiceUpdate& fresh = updates[num_updates - 1];
        fresh.index = index;
        fresh.first = !choice.started;
        fresh.text.clear();
        fresh.tokens.clear();
        fresh.prompt_tokens.clear();
        fresh.finish.reset();
        fresh.stop_reason = std::monostate();
        if (!choice.started) AddPrompt(static_cast<int>(p), fresh, choice);
        choice.started = true;
      }
      ChoiceUpdate& update = updates[update_of_[index]];
      TakeEvent(choice, event, update);
      if (!update.finish.has_value()) continue;
      if (*update.finish == FinishReason::kAborted || *update.finish == FinishReason::kError) {
        Cancel();
        return absl::CancelledError("the request was aborted");
      }
      choice.ended = true;
      --num_open_;
      if (!event.finish.has_value()) handles_[p]->CancelChoice(event.choice);
    }
    base += request_.requests[p].n;
  }
  updates.resize(num_updates);
  return num_open_ > 0;
}

void CompletionStream::Wait(absl::Duration timeout) {
  // Prompts end in any order: wait on one that is still open.
  int base = 0;
  for (std::size_t p = 0; p < handles_.size(); ++p) {
    const int n = request_.requests[p].n;
    const bool open = std::any_of(choices_.begin() + base, choices_.begin() + base + n,
                                  [](const Choice& choice) { return !choice.ended; });
    if (open) {
      handles_[p]->Wait(timeout);
      return;
    }
    base += n;
  }
}

void CompletionStream::Cancel() {
  for (const std::unique_ptr<RequestHandle>& handle : handles_) handle->Cancel();
}

StreamUsage CompletionStream::usage() const {
  StreamUsage usage;
  for (std::size_t p = 0; p < handles_.size(); ++p) {
    const RequestUsage one = handles_[p]->usage();
    usage.prompt_tokens += static_cast<int>(request_.requests[p].prompt.size());
    usage.cached_tokens += one.cached_tokens;
    usage.prefill_policy = one.prefill_policy;
    usage.decode_policy = one.decode_policy;
    usage.k = one.k;
    usage.attention.Add(one.attention);
  }
  for (const Choice& choice : choices_) usage.completion_tokens += choice.num_tokens;
  return usage;
}

}  // namespace thresher
