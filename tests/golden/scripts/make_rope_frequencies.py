#!/usr/bin/env python3
"""Makes rope_frequencies.txt: what transformers (5.x) computes for every rope scaling.

Three lines a case: the config.json as found in the wild, the largest position served, and the
attention factor followed by the frequencies.
"""

import json

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tiny_oracle import GOLDEN

BASE = dict(hidden_size=64, num_attention_heads=4, max_position_embeddings=4096)
SHORT = [1 + 0.01 * i for i in range(8)]
LONG = [1 + 0.9 * i for i in range(8)]

# Old and new names of the keys: rope_scaling with "type" or "rope_type", and rope_parameters.
CASES = [
    (dict(), 4096),
    (dict(rope_theta=500000.0, rope_scaling=None), 4096),
    (dict(rope_theta=500000.0, rope_scaling=dict(rope_type="default")), 4096),
    (dict(rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), 4096),
    (dict(rope_theta=10000.0, rope_scaling=dict(type="linear", factor=2.5)), 4096),
    (dict(rope_theta=10000.0, rope_scaling=dict(type="dynamic", factor=4.0)), 4096),
    (dict(rope_theta=500000.0,
          rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                            high_freq_factor=4.0, original_max_position_embeddings=512)), 4096),
    (dict(rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=32.0,
                               low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=1024)), 4096),
    (dict(rope_theta=1000000.0,
          rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=1024)), 4096),
    (dict(rope_theta=10000.0,
          rope_scaling=dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096,
                            beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=1.0)), 4096),
    (dict(rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, truncate=False,
                               original_max_position_embeddings=128, beta_fast=16.0)), 4096),
    (dict(rope_theta=10000.0,
          rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024,
                            attention_factor=1.3)), 4096),
    (dict(rope_theta=10000.0,
          rope_scaling=dict(type="longrope", short_factor=SHORT, long_factor=LONG,
                            original_max_position_embeddings=1024)), 1024),
    (dict(rope_theta=10000.0,
          rope_scaling=dict(type="longrope", short_factor=SHORT, long_factor=LONG,
                            original_max_position_embeddings=1024)), 4096),
]


def main():
    lines = []
    for rope, served in CASES:
        text = json.dumps({**BASE, **rope})
        config = LlamaConfig(**json.loads(text))
        config.standardize_rope_params()
        kind = config.rope_parameters["rope_type"]
        if kind == "default":
            frequencies, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        else:
            frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, seq_len=served)
        numbers = [float(factor)] + frequencies.tolist()
        lines += [text, str(served), " ".join(f"{number:.9g}" for number in numbers)]
    (GOLDEN / "rope_frequencies.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
