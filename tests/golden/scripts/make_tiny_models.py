#!/usr/bin/env python3
"""Makes models/<name>/ and logits/<name>.{tokens,f32}: tiny random Hugging Face models.

Run with torch and transformers (5.x); takes seconds. Each model covers what the others do not.
"""

import json
import shutil

import torch
from safetensors.torch import save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tiny_oracle import GOLDEN, randomise, round_to, write_logits

COMMON = dict(attn_implementation="eager", rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1)

# name: (class, configuration, stored dtype, shards, tokens of the golden)
MODELS = {
    # 8 / 4 heads for 1, 2 and 4 ranks; a vocabulary that 2 and 4 do not divide.
    "llama31": (
        LlamaForCausalLM,
        LlamaConfig(
            vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256,
            rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                 low_freq_factor=1.0, high_freq_factor=4.0,
                                 original_max_position_embeddings=32),
            tie_word_embeddings=False, **COMMON),
        torch.float32, 1, 96),
    # 9 / 3 heads for 1 and 3 ranks.
    "llama_tied_f16": (
        LlamaForCausalLM,
        LlamaConfig(
            vocab_size=96, hidden_size=72, intermediate_size=120, num_hidden_layers=2,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=128,
            rope_parameters=dict(rope_type="default", rope_theta=100000.0),
            tie_word_embeddings=True, **COMMON),
        torch.float16, 1, 64),
    # Beyond the original length of 32; biases on every matrix; MHA.
    "llama_yarn_biases": (
        LlamaForCausalLM,
        LlamaConfig(
            vocab_size=80, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=128,
            rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                 original_max_position_embeddings=32),
            attention_bias=True, mlp_bias=True, tie_word_embeddings=False, **COMMON),
        torch.float32, 1, 96),
    # head_dim is not hidden / heads; the golden is as long as the window.
    "mistral_window": (
        MistralForCausalLM,
        MistralConfig(
            vocab_size=96, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=40,
            max_position_embeddings=128,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
            tie_word_embeddings=False, **COMMON),
        torch.bfloat16, 1, 40),
    "qwen2_sharded": (
        Qwen2ForCausalLM,
        Qwen2Config(
            vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=128,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
            tie_word_embeddings=True, **COMMON),
        torch.float32, 3, 64),
    # One KV head for four heads; heads together wider than the hidden size.
    "qwen3_bf16": (
        Qwen3ForCausalLM,
        Qwen3Config(
            vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=1, head_dim=32,
            max_position_embeddings=128,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
            tie_word_embeddings=False, **COMMON),
        torch.bfloat16, 1, 64),
}


def old_form(config):
    """config.json as transformers 4 wrote it: most folders in the world still have this form."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return config


def store(model, name, dtype, num_shards):
    folder = GOLDEN / "models" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = json.loads(model.config.to_json_string(use_diff=False))
    keep = ("architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size",
            "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
            "max_position_embeddings", "sliding_window", "use_sliding_window", "rms_norm_eps",
            "rope_parameters", "attention_bias", "mlp_bias", "tie_word_embeddings", "hidden_act",
            "bos_token_id", "eos_token_id")
    config = {key: config[key] for key in keep if key in config}
    config["architectures"] = [type(model).__name__]
    if name != "llama_yarn_biases":
        config = old_form(config)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": 0, "eos_token_id": [1, 2], "temperature": 0.7, "top_p": 0.9})
        + "\n")
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    if num_shards == 1:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return
    weight_map = {}
    for shard in range(num_shards):
        file = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        part = {key: tensors[key] for key in list(tensors)[shard::num_shards]}
        save_file(part, folder / file, {"format": "pt"})
        weight_map.update({key: file for key in part})
    total = sum(value.numel() * value.element_size() for value in tensors.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=1) + "\n")


def main():
    for index, (name, (make, config, dtype, num_shards, num_tokens)) in enumerate(MODELS.items()):
        torch.manual_seed(index)
        model = make(config)
        randomise(model, seed=100 + index)
        round_to(model, dtype)
        store(model, name, dtype, num_shards)
        write_logits(model, name, config.vocab_size, num_tokens, seed=200 + index)


if __name__ == "__main__":
    main()
