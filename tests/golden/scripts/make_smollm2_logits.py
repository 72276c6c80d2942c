#!/usr/bin/env python3
"""Makes logits/smollm2.golden: SmolLM2-135M-Instruct on three texts, as transformers computes it.

make_smollm2_logits.py MODEL.gguf, with torch, transformers (5.x) and gguf; takes about a minute.
The weights are what gguf dequantises, the arithmetic is double. All little-endian, no padding:
  int32 number of texts, top, probes; int32 [probes] vocabulary entries; then for each text
  int32 number of tokens; int32 [tokens] ids; and for each token float32 log of the sum of
  exponentials, int32 [top] largest entries in falling order, float32 [top] and [probes] logits.
"""

import pathlib
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tiny_oracle import GOLDEN

TEXTS = [
    "The lighthouse keeper counted the ships each evening, writing their names in a long ledger "
    "that his grandfather had begun. On stormy nights he lit a second lamp, for the fishermen said "
    "that one light might be a star but two were always home. Nobody had drowned on that coast for "
    "forty years, and the 1,204 names in the ledger were the proof of it.",
    "def merge(left, right):\n    result = []\n    while left and right:\n        if left[0] <= "
    "right[0]:\n            result.append(left.pop(0))\n        else:\n            result.append("
    "right.pop(0))\n    return result + left + right\n\n\n"
    "assert merge([1, 4], [2, 3]) == [1, 2, 3, 4]\n",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\nHow far is the Moon, and how long does light take from there? "
    "Answer in 2 sentences.<|im_end|>\n<|im_start|>assistant\nThe Moon is about 384,400 km away.",
]
TOP = 16
PROBES = 32


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    source = dict(pretrained_model_name_or_path=str(path.parent), gguf_file=path.name)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32,
                                                 attn_implementation="eager")
    model = model.double().eval()
    generator = torch.Generator().manual_seed(7)
    probes = torch.randint(0, model.config.vocab_size, (PROBES,), generator=generator)
    parts = [numpy.array([len(TEXTS), TOP, PROBES], "<i4"), probes.numpy().astype("<i4")]
    all_ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert min(map(len, all_ids)) >= 64, [len(ids) for ids in all_ids]
    for ids in all_ids:
        ids = torch.tensor([ids])
        with torch.no_grad():
            logits = model(ids).logits[0]
        print(f"{len(logits)} tokens, next {tokenizer.decode([int(logits[-1].argmax())])!r}")
        parts += [numpy.array([len(logits)], "<i4"), ids[0].numpy().astype("<i4")]
        for row in logits:
            values, entries = row.topk(TOP)
            parts += [
                torch.logsumexp(row, 0, keepdim=True).numpy().astype("<f4"),
                entries.numpy().astype("<i4"),
                values.numpy().astype("<f4"),
                row[probes].numpy().astype("<f4"),
            ]
    data = b"".join(part.tobytes() for part in parts)
    (GOLDEN / "logits" / "smollm2.golden").write_bytes(data)
    print(f"{len(data)} bytes")


if __name__ == "__main__":
    main()
