// One function per family's file, each giving its row of the registry.
#pragma once

#include "engine/model/model_registry.h"

namespace thresher {

ModelFamily LlamaFamily();
ModelFamily MistralFamily();
ModelFamily Qwen2Family();
ModelFamily Qwen3Family();

}  // namespace thresher
