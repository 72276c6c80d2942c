#!/usr/bin/env python3
"""Makes models/<name>.gguf and logits/<name>.{tokens,f32}: tiny random GGUF models.

Run with torch, transformers (5.x) and gguf; takes seconds. Together they have every tensor format
that the engine reads, the permuted q and k of Llama, its rope_freqs, biases, q/k norms, and tied
and untied heads. The oracle runs on the weights that gguf dequantises.
"""

import math

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as Q
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tiny_oracle import GOLDEN, randomise, write_logits

COMMON = dict(attn_implementation="eager", bos_token_id=0, eos_token_id=1)

LLAMA = LlamaConfig(
    vocab_size=72, hidden_size=256, intermediate_size=256, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    rms_norm_eps=1e-5, tie_word_embeddings=True,
    rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                         high_freq_factor=4.0, original_max_position_embeddings=64),
    **COMMON)
QWEN2 = Qwen2Config(
    vocab_size=72, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-6,
    tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
    **COMMON)
QWEN3 = Qwen3Config(
    vocab_size=72, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=128,
    rms_norm_eps=1e-6, tie_word_embeddings=True,
    rope_parameters=dict(rope_type="yarn", rope_theta=1000000.0, factor=2.0,
                         original_max_position_embeddings=64),
    **COMMON)

# name: (class, configuration, format of each matrix in turn)
MODELS = {
    "llama_mixed": (LlamaForCausalLM, LLAMA,
                    [Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q6_K, Q.Q5_0, Q.Q4_K, Q.Q5_K, Q.Q5_1,
                     Q.Q4_K, Q.Q6_K, Q.Q5_K, Q.Q8_0, Q.Q4_0, Q.Q5_1, Q.Q6_K]),
    "qwen2_q8": (Qwen2ForCausalLM, QWEN2, [Q.F16, Q.Q8_0]),
    "qwen3_plain": (Qwen3ForCausalLM, QWEN3, [Q.BF16, Q.F16, Q.F32]),
}

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, rest = stem.split(".", 3)
        return f"blk.{layer}.{NAMES[rest]}.{kind}"
    return f"{NAMES[stem]}.{kind}"


def pair_order(heads, head_dim):
    """Rows of a head as llama.cpp wants them: (0, dim/2), (1, dim/2 + 1), ... side by side."""
    rows = numpy.arange(heads * head_dim).reshape(heads, 2, head_dim // 2)
    return rows.transpose(0, 2, 1).reshape(-1)


def random_k_quant(weight, kind, generator):
    """gguf's Python cannot quantise to these formats, so the blocks are random with sane scales."""
    rows, cols = weight.shape
    num_bytes = {Q.Q4_K: 144, Q.Q5_K: 176, Q.Q6_K: 210}[kind]
    blocks = generator.integers(0, 256, (rows, cols // 256, num_bytes), dtype=numpy.uint8)
    # The largest products of the integers: 63 * 15, 63 * 31, 127 * 32.
    largest = {Q.Q4_K: 945, Q.Q5_K: 1953, Q.Q6_K: 4064}[kind]
    scale = generator.uniform(0.5, 1, blocks.shape[:2]) * 4 / cols**0.5 / largest
    at = 208 if kind == Q.Q6_K else 0
    blocks[:, :, at:at + 2] = scale[..., None].astype("<f2").view(numpy.uint8)
    if kind != Q.Q6_K:  # the offsets' scale: their mean cancels the quants' mean
        offset = scale * largest / 63 / 2
        blocks[:, :, 2:4] = offset[..., None].astype("<f2").view(numpy.uint8)
    return blocks.reshape(rows, -1)


def llama3_divisors(config):
    """What the converters write to rope_freqs.weight for the llama3 scaling."""
    rope, dim = config.rope_parameters, config.head_dim
    divisors = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / dim)
        original, factor = rope["original_max_position_embeddings"], rope["factor"]
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return numpy.array(divisors, dtype=numpy.float32)


def write_metadata(writer, config):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if config.head_dim is not None and config.head_dim * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if config.rope_parameters["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(config.rope_parameters["factor"])
        writer.add_rope_scaling_orig_ctx_len(
            config.rope_parameters["original_max_position_embeddings"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm" if config.model_type == "llama" else "qwen2")
    writer.add_token_list([chr(33 + i) for i in range(config.vocab_size)])
    writer.add_token_types([3, 3] + [1] * (config.vocab_size - 2))
    writer.add_token_merges([])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_eot_token_id(2)
    writer.add_chat_template("{{ messages[0]['content'] }}")


def write_model(name, make, config, formats, seed):
    torch.manual_seed(seed)
    model = make(config)
    config.head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads)
    randomise(model, seed)
    generator = numpy.random.default_rng(seed)
    writer = gguf.GGUFWriter(GOLDEN / "models" / f"{name}.gguf", config.model_type)
    write_metadata(writer, config)
    if config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    matrices = 0
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            weight = parameter.detach().numpy().astype(numpy.float32)
            order = numpy.arange(weight.shape[0])
            if config.model_type == "llama" and "q_proj" in key:
                order = pair_order(config.num_attention_heads, config.head_dim)
            if config.model_type == "llama" and "k_proj" in key:
                order = pair_order(config.num_key_value_heads, config.head_dim)
            stored = weight[order]
            if weight.ndim == 1:
                writer.add_tensor(gguf_name(key), stored)
                continue
            kind = formats[matrices % len(formats)]
            matrices += 1
            if kind in (Q.Q4_K, Q.Q5_K, Q.Q6_K):
                packed = random_k_quant(stored, kind, generator)
            else:
                packed = gguf.quants.quantize(stored, kind)
            writer.add_tensor(gguf_name(key), packed, raw_dtype=kind)
            restored = numpy.empty_like(weight)
            restored[order] = gguf.quants.dequantize(packed, kind)
            parameter.copy_(torch.from_numpy(restored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_logits(model, name, config.vocab_size, 96, seed + 1)


def main():
    for index, (name, (make, config, formats)) in enumerate(MODELS.items()):
        write_model(name, make, config, formats, 1000 + 2 * index)


if __name__ == "__main__":
    main()
