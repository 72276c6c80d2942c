#!/usr/bin/env python3
"""Prints the GPU tables of README.md from a folder of result lines: gpu_table.py DIR

DIR has gpu_kernels.jsonl (gpu_kernels_bench and gpu_peers.py) and step.jsonl (thresher bench step); files
that are not there are left out. Of several lines of one case the last holds.
"""
import json
import pathlib
import sys


def lines(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def kernels(rows):
    peers = {row["case"]: row["value"] for row in rows if row["bench"].startswith("peer_")}
    ours = {row["case"]: row for row in rows if row["bench"].startswith("gpu_")}
    print("| case | time, us | TB/s | TFLOP/s | PyTorch, us | ratio |")
    print("|---|---|---|---|---|---|")
    for case, row in ours.items():
        peer = peers.get(case, row.get("peer"))
        ratio = f"{peer:.1f} | {peer / row['value']:.2f}" if peer else " | "
        print(f"| {case} | {row['value']:.1f} | {row['tb_per_s']:.2f} | {row['tflop_per_s']:.0f} | {ratio} |")


def steps(rows):
    checks = [row for row in rows if row["case"] == "agreement"]
    if any(row["value"] != 1 for row in checks):
        sys.exit(f"the runs disagreed: {checks}")
    print("\n| step | time, ms | of the floor | processor time, ms |")
    print("|---|---|---|---|")
    cases = {row["case"]: row for row in rows if row["case"].startswith(("decode_", "first_token_"))}
    for case, row in cases.items():
        print(f"| {case} | {row['value']:.2f} | {row.get('ratio_to_floor', 0):.2f} | {row['cpu_ms']:.2f} |")


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = lines(folder / "gpu_kernels.jsonl")
    if rows:
        kernels(rows)
    rows = lines(folder / "step.jsonl")
    if rows:
        steps(rows)


if __name__ == "__main__":
    main()
