// How far one step may run into the tokens that a sequence has still to compute.
#pragma once

#include <algorithm>

namespace thresher {

struct PrefillExtent {
  int context_length = 0;  // tokens computed or under way
  int prompt_length = 0;
  int num_tokens = 0;  // all known tokens: the prompt, after a preemption also generated ones
  int chunk_multiple = 1;
};

// Where a chunk of at most `max_tokens` ends. It ends at the prompt's end, or at a multiple of
// chunk_multiple, and never crosses the prompt's end: position decides the attention policy. Equals
// context_length if max_tokens does not reach the next such place.
inline int PrefillChunkEnd(const PrefillExtent& extent, int max_tokens) {
  const bool in_prompt = extent.context_length < extent.prompt_length;
  const int end = in_prompt ? extent.prompt_length : extent.num_tokens;
  if (end - extent.context_length <= max_tokens) return end;
  const int reached = extent.context_length + max_tokens;
  if (!in_prompt) return reached;
  return std::max(extent.context_length, reached - reached % extent.chunk_multiple);
}

}  // namespace thresher
