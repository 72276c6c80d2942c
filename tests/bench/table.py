#!/usr/bin/env python3
"""Prints the speed table of README.md from a folder of result lines: table.py DIR"""
import json
import pathlib
import sys


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def main():
    folder = pathlib.Path(sys.argv[1])
    print("| case | file | Thresher, tokens/s | llama.cpp | ratio | of its own GEMMs alone | of the weight-byte floor |")
    print("|---|---|---|---|---|---|---|")
    for name, title in (("as_given", "Q4_1"), ("q4_0", "Q4_0"), ("avx2", "Q4_1, ours on AVX2 alone")):
        rows = lines(folder / f"offline_{name}.jsonl")
        ours = {r["case"]: r for r in rows if "engine" not in r}
        peer = {r["case"]: r for r in rows if r.get("engine") == "llama.cpp"}
        if ours["agreement"]["value"] != 1:
            sys.exit(f"{name}: the runs disagreed: {ours['agreement']['disagreement']}")
        for case in ("prefill_512", "decode_8", "decode_1"):
            a, b = ours[case], peer[case]
            print(f"| {case} | {title} | {a['value']:.0f} | {b['value']:.0f} | {a['value'] / b['value']:.2f}x "
                  f"| {a['ratio_to_gemm_only']:.2f} | {a['ratio_to_floor']:.2f} |")
    load = {r["case"]: r for r in lines(folder / "offline_as_given.jsonl")}
    print(f"\nLoading takes {load['load']['value']:.1f} s.")
    step = lines(folder / "scheduler.jsonl")[0]
    print(f"Scheduler: {step['value']:,.0f} steps/s with 256 running.")
    sse = lines(folder / "sse_streams.jsonl")[0]
    print(f"512 event streams: {sse['tokens_per_s']:,.0f} tokens/s on {sse['server_cores']:.2f} of a core, "
          f"largest gap {sse['max_gap_to_median']:.1f} times the median; checks "
          f"{'hold' if all(sse['checks'].values()) else 'FAIL'}.")


if __name__ == "__main__":
    main()
