// The fields of the OpenAI pages that this server cannot honour.
#pragma once

#include "server/http/json_fields.h"

namespace thresher {

enum class BodyKind { kCompletion, kChat, kTokenize };

// Refuses a field by name unless it is null or has the value that asks for nothing, so that no wish
// is ignored. A field of one route is one that the other cannot honour. Fields of nobody's pages
// pass.
void RefuseUnsupported(BodyKind kind, JsonFields& fields);

}  // namespace thresher
