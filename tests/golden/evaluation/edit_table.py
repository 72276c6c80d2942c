#!/usr/bin/env python3
"""Writes a threshold table as it would be under a poorer rule, for the experiments of run.sh.

nearest: thresholds of the nearest calibrated length, none beyond the last (the published lookup).
line:    theta(n) = a + b ln n, fitted over the calibrated lengths above k for each (layer, head, k).

The file is that of engine/attention/threshold_file.cc. usage: edit_table.py nearest|line IN OUT
"""

import array
import math
import pathlib
import struct
import sys

PLACEMENTS = 3
LOOKUP_OFFSET = 16  # behind magic, version and parts


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def fit(lengths, thetas):
    xs = [math.log(n) for n in lengths]
    mean_x, mean_y = sum(xs) / len(xs), sum(thetas) / len(xs)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, thetas)) / spread if spread else 0.0
    return mean_y - slope * mean_x, slope


def main(rule, source, target):
    data = bytearray(pathlib.Path(source).read_bytes()[:-8])
    parts, _, layers, heads, _, _, num_k, num_n, fields = struct.unpack_from("<9I", data, 12)
    if rule == "nearest":
        struct.pack_into("<I", data, LOOKUP_OFFSET, 1)
    else:
        at = 12 + 36
        for _ in range(2 * fields):
            at += 8 + struct.unpack_from("<Q", data, at)[0]
        ks = struct.unpack_from(f"<{num_k}i", data, at)
        ns = struct.unpack_from(f"<{num_n}i", data, at + 4 * num_k)
        at += 4 * num_k + 12 * num_n
        for place in range(PLACEMENTS):
            if not parts >> place & 1:
                continue
            theta = array.array("f", data[at : at + 4 * layers * num_k * num_n * heads])
            slope = array.array("f", bytes(4 * layers * num_k * heads))
            for layer in range(layers):
                for k in range(num_k):
                    kept = [n for n in range(num_n) if ns[n] > ks[k]] or [num_n - 1]
                    for head in range(heads):
                        index = [((layer * num_k + k) * num_n + n) * heads + head for n in range(num_n)]
                        start, rise = fit([ns[n] for n in kept], [theta[index[n]] for n in kept])
                        rise = min(rise, 0.0) if place == 2 else max(rise, 0.0)
                        for n in range(num_n):
                            theta[index[n]] = start + rise * math.log(ns[n])
                        slope[(layer * num_k + k) * heads + head] = rise
            data[at : at + 4 * len(theta)] = theta.tobytes()
            at += 4 * len(theta)
            data[at : at + 4 * len(slope)] = slope.tobytes()
            at += 4 * len(slope)
            at += 4 * len(theta) * (parts >> (PLACEMENTS + place) & 1)
            at += 4 * len(slope) * (parts >> (2 * PLACEMENTS + place) & 1)
    pathlib.Path(target).write_bytes(bytes(data) + struct.pack("<Q", fnv1a(data)))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("nearest", "line"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
