"""Writes dequantize/blocks.txt: random blocks of each GGUF format and their values.

The values come from the gguf package's own dequantize. Run with gguf and numpy installed:
    python tests/golden/scripts/make_dequantize_golden.py
Lines: `format NAME NUM_BLOCKS`, `bytes HEX`, then `values` with one f32 as eight hex digits each.
"""

import pathlib

import gguf
import numpy as np

# Byte offsets of the f16 numbers in a block, and blocks to draw.
FORMATS = {
    "F32": ([], 8),
    "F16": ([], 16),
    "BF16": ([], 16),
    "Q8_0": ([0], 3),
    "Q4_0": ([0], 3),
    "Q4_1": ([0, 2], 3),
    "Q5_0": ([0], 3),
    "Q5_1": ([0, 2], 3),
    "Q4_K": ([0, 2], 1),
    "Q5_K": ([0, 2], 1),
    "Q6_K": ([208], 1),
}


def random_blocks(rng: np.random.Generator, name: str) -> np.ndarray:
    scales_at, num_blocks = FORMATS[name]
    if name == "F32":
        return rng.standard_normal(num_blocks, dtype=np.float32).view(np.uint8)
    if name == "F16":
        # Normal, subnormal, zero of either sign and infinite numbers.
        values = rng.standard_normal(num_blocks).astype(np.float16)
        values[:5] = [0.0, -0.0, 6e-8, -6.1e-5, np.inf]
        return values.view(np.uint8)
    if name == "BF16":
        bits = rng.standard_normal(num_blocks, dtype=np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16).view(np.uint8)
    block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = rng.integers(0, 256, (num_blocks, block_bytes), dtype=np.uint8)
    for at in scales_at:
        scales = (rng.standard_normal(num_blocks) * 0.01).astype(np.float16)
        scales[0] = np.float16(3e-6)  # subnormal
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(num_blocks, 2)
    return blocks.reshape(-1)


def main() -> None:
    rng = np.random.default_rng(20)
    lines = []
    for name, (_, num_blocks) in FORMATS.items():
        data = random_blocks(rng, name)
        values = gguf.dequantize(data, gguf.GGMLQuantizationType[name]).astype(np.float32)
        lines.append(f"format {name} {num_blocks}")
        lines.append(f"bytes {data.tobytes().hex()}")
        lines.append("values " + " ".join(f"{bits:08x}" for bits in values.reshape(-1).view(np.uint32)))
    folder = pathlib.Path(__file__).parents[1] / "dequantize"
    folder.mkdir(exist_ok=True)
    (folder / "blocks.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
