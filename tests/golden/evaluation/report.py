#!/usr/bin/env python3
"""Prints the tables of README.md from the JSON files that run.sh leaves. usage: report.py OUT [NAME...]"""

import json
import pathlib
import sys


def percent(value, digits=2):
    return f"{100 * value:.{digits}f} %"


def row(choice):
    loss, kl = choice["perplexity_increase"], choice["kl"]
    cells = [choice["name"]]
    if choice["decode"]["policy"] == "dense":
        cells += [percent(choice["block_density"], 1)]
    else:
        share = [choice["v_row_share"], choice["v_row_share_at_end"]]
        if "v_row_share_of_heads" in choice:
            share.append(choice["v_row_share_of_heads"])
        cells += [" / ".join(percent(one, 1) for one in share)]
    cells += [f"{percent(loss['mean'])} ({percent(loss['upper95'])})", f"{kl['mean']:.5f} ({kl['upper95']:.5f})"]
    cells += [percent(choice["top_agreement"]["mean"], 1)]
    if choice["heads_within_half_and_double"] is None:
        return cells
    ratios = [bucket["selected_per_target"] for bucket in choice["buckets"]]
    cells += [" / ".join(f"{ratio:.2f}" if ratio else "–" for ratio in ratios)]
    return cells + [percent(choice["heads_within_half_and_double"], 1)]


def table(name, report):
    stretch = f", {report['windows']} windows of {report['window_tokens']} tokens, prompt {report['prompt_tokens']}"
    print(f"\n`{name}`: {', '.join(report['texts'])}{stretch}; dense perplexity {report['dense']['perplexity']:.3f}\n")
    thresholds = any(choice["heads_within_half_and_double"] is not None for choice in report["choices"])
    head = ["choice", "V rows read / at the end / by a head alone" if thresholds else "blocks read"]
    head += ["perplexity (upper 95 %)", "KL, nats (upper 95 %)", "same top token"]
    if thresholds:
        head += ["k̃/k at <512 / 512-2k / 2k-8k / >8k", "heads in [0.5, 2]"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for choice in report["choices"]:
        cells = row(choice)
        print("| " + " | ".join(cells + [""] * (len(head) - len(cells))) + " |")


def main(folder, names):
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        if path.stat().st_size and (not names or path.stem in names):
            table(path.stem, json.loads(path.read_text()))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
