#include "server/grpc/proto_request.h"

#include "server/requests/wire_error.h"

namespace thresher {
namespace {

void ReadSampling(const v1::SamplingOptions& sampling, CompletionRequest& request) {
  if (sampling.has_temperature()) request.temperature = sampling.temperature();
  if (sampling.has_top_p()) request.top_p = sampling.top_p();
  if (sampling.has_top_k()) request.top_k = sampling.top_k();
  if (sampling.has_min_p()) request.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) {
    request.repetition_penalty = sampling.repetition_penalty();
  }
  if (sampling.has_presence_penalty()) request.presence_penalty = sampling.presence_penalty();
  if (sampling.has_frequency_penalty()) request.frequency_penalty = sampling.frequency_penalty();
  if (sampling.has_seed()) request.seed = sampling.seed();
  for (const auto& [id, bias] : sampling.logit_bias()) request.logit_bias.emplace_back(id, bias);
}

void ReadStopping(const v1::StopOptions& stopping, CompletionRequest& request) {
  request.stop.assign(stopping.stop().begin(), stopping.stop().end());
  request.stop_token_ids.assign(stopping.stop_token_ids().begin(), stopping.stop_token_ids().end());
  request.include_stop_in_output = stopping.include_stop_str_in_output();
  request.ignore_eos = stopping.ignore_eos();
  request.min_tokens = stopping.min_tokens();
}

void ReadOutput(const v1::OutputOptions& output, CompletionRequest& request) {
  if (output.has_logprobs()) request.logprobs = output.logprobs();
  if (output.has_prompt_logprobs()) request.prompt_logprobs = output.prompt_logprobs();
  request.echo = output.echo();
  request.return_token_ids = output.return_token_ids();
  if (output.has_skip_special_tokens()) request.skip_special_tokens = output.skip_special_tokens();
}

void FillLogprob(const TokenRecord& record, const Tokenizer& tokenizer, v1::TokenLogprob& message) {
  message.set_token_id(record.token);
  message.set_token(std::string(tokenizer.TokenBytes(record.token)));
  if (!record.logprobs.has_value()) {
    message.set_is_first(true);
    return;
  }
  message.set_logprob(record.logprobs->logprob);
  message.set_rank(record.logprobs->rank);
  for (const auto& [id, logprob] : record.logprobs->top) {
    v1::TokenLogprob::Alternative& alternative = *message.add_top();
    alternative.set_token_id(id);
    alternative.set_token(std::string(tokenizer.TokenBytes(id)));
    alternative.set_logprob(logprob);
  }
}

}  // namespace

absl::Status ReadProto(const v1::GenerateRequest& message, CompletionRequest& request) {
  if (!message.model().empty()) request.model = message.model();
  switch (message.prompt_case()) {
    case v1::GenerateRequest::kText:
      request.prompts.emplace_back(message.text());
      break;
    case v1::GenerateRequest::kTokenIds:
      request.prompts.emplace_back(std::vector<std::int64_t>(message.token_ids().ids().begin(),
                                                             message.token_ids().ids().end()));
      break;
    case v1::GenerateRequest::PROMPT_NOT_SET:
      return InvalidField("prompt", "prompt is missing: set text or token_ids");
  }
  if (message.has_add_special_tokens()) request.add_special_tokens = message.add_special_tokens();
  if (message.has_max_tokens()) request.max_tokens = message.max_tokens();
  if (message.has_n()) request.n = message.n();
  ReadSampling(message.sampling(), request);
  ReadStopping(message.stopping(), request);
  ReadOutput(message.output(), request);
  if (message.has_attention()) request.attention = WishFromProto(message.attention());
  request.priority = message.priority();
  request.request_id = message.request_id();
  return absl::OkStatus();
}

void FillStarted(const MappedRequest& request, v1::GenerateStarted& started) {
  started.set_request_id(request.request_id);
  const std::vector<TokenId>& prompt = request.requests[0].prompt;
  started.set_prompt_tokens(static_cast<int>(prompt.size()));
  if (!request.output.return_token_ids) return;
  started.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
}

void FillChunk(const ChoiceUpdate& update, const OutputOptions& output, const Tokenizer& tokenizer,
               v1::GenerateChunk& chunk) {
  chunk.set_index(update.index);
  chunk.set_text(update.text);
  for (const TokenRecord& record : update.tokens) {
    if (output.return_token_ids) chunk.add_token_ids(record.token);
    if (output.logprobs) FillLogprob(record, tokenizer, *chunk.add_logprobs());
  }
  for (const TokenRecord& record : update.prompt_tokens) {
    FillLogprob(record, tokenizer, *chunk.add_prompt_logprobs());
  }
  if (update.finish.has_value()) {
    chunk.set_finish_reason(*update.finish == FinishReason::kLength ? v1::FINISH_REASON_LENGTH
                                                                    : v1::FINISH_REASON_STOP);
  }
  if (const auto* text = std::get_if<std::string>(&update.stop_reason)) {
    chunk.set_stop_string(*text);
  } else if (const auto* id = std::get_if<TokenId>(&update.stop_reason)) {
    chunk.set_stop_token_id(*id);
  }
}

void FillUsage(const StreamUsage& usage, v1::Usage& message) {
  message.set_prompt_tokens(usage.prompt_tokens);
  message.set_completion_tokens(usage.completion_tokens);
  message.set_cached_tokens(usage.cached_tokens);
  v1::AttentionDetails& details = *message.mutable_attention_details();
  details.set_prefill_policy(usage.prefill_policy);
  details.set_decode_policy(usage.decode_policy);
  if (usage.k.has_value()) details.set_k(*usage.k);
  details.set_v_rows_total(usage.attention.value_rows);
  details.set_v_rows_read(usage.attention.value_rows_read);
  details.set_k_rows_read(usage.attention.key_rows_read);
  details.set_kv_bytes_read(usage.attention.kv_bytes_read);
  details.set_kv_bytes_dense(usage.attention.kv_bytes_dense);
  details.set_blocks_selected(usage.attention.blocks_selected);
  details.set_blocks_total(usage.attention.blocks);
  for (std::size_t i = 0; i < kNumDenseFallbacks; ++i) {
    if (usage.attention.dense_fallbacks[i] == 0) continue;
    (*details.mutable_dense_fallbacks())[std::string(kDenseFallbackNames[i])] =
        usage.attention.dense_fallbacks[i];
  }
}

}  // namespace thresher
