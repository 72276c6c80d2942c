"""The strings on which tokenizers are compared; tests/support/hard_strings.h makes the same ones.

String i comes from SplitMix64 seeded with SEED + i. It is 1 + next() % 10 parts long; each part takes
one number r, whose low four bits say the kind:
  0-10  fragment (r >> 8) % number of fragments
  11    a code point: range (r >> 8) % number of ranges, offset (r >> 24) % its size
  12    a fragment as for 0-10, repeated 2 + (r >> 24) % 40 times
  13    1 + (r >> 8) % 40 spaces
  14    the decimal digits of (r >> 8) % 10 ** (1 + (r >> 4) % 4 * 3)
  15    a letter of a-z, (r >> 8) % 26, repeated 1 + (r >> 16) % 60 times
Ranges hold only code points assigned before Unicode 14, so that the age of anybody's tables does not
matter.
"""

import json
import pathlib

SEED = 0x7468726573686572
MASK = (1 << 64) - 1
ALPHABET = pathlib.Path(__file__).parent.parent / "tokenizers" / "fragments.json"


def split_mix(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def part(r, fragments, ranges):
    kind = r & 15
    if kind <= 10:
        return fragments[(r >> 8) % len(fragments)]
    if kind == 11:
        low, high = ranges[(r >> 8) % len(ranges)]
        return chr(low + (r >> 24) % (high - low + 1))
    if kind == 12:
        return fragments[(r >> 8) % len(fragments)] * (2 + (r >> 24) % 40)
    if kind == 13:
        return " " * (1 + (r >> 8) % 40)
    if kind == 14:
        return str((r >> 8) % 10 ** (1 + (r >> 4) % 4 * 3))
    return chr(ord("a") + (r >> 8) % 26) * (1 + (r >> 16) % 60)


def hard_strings(count):
    alphabet = json.loads(ALPHABET.read_text(encoding="utf-8"))
    strings = []
    for i in range(count):
        random = split_mix((SEED + i) & MASK)
        length = 1 + next(random) % 10
        parts = [part(next(random), alphabet["fragments"], alphabet["ranges"])
                 for _ in range(length)]
        strings.append("".join(parts))
    return strings


def ids_hash(ids):
    """FNV-1a of the ids as little-endian 32-bit numbers, folded to 24 bits."""
    value = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return (value ^ (value >> 24) ^ (value >> 48)) & 0xFFFFFF
