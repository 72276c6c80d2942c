#!/usr/bin/env python3
"""Writes reports of `thresher evaluate` as they are kept here: six digits, one choice a line, no paths of a machine.

usage: shorten.py TO FROM.json...
"""

import json
import pathlib
import re
import sys


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return value


def shorten(report):
    report["command"] = re.sub(r"--model \S*/", "--model ", report["command"])
    choices = rounded(report.pop("choices"))
    head = json.dumps(rounded(report), ensure_ascii=False)[:-1]
    return head + ', "choices": [\n' + ",\n".join(json.dumps(one, ensure_ascii=False) for one in choices) + "\n]}\n"


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for path in map(pathlib.Path, sys.argv[2:]):
        (pathlib.Path(sys.argv[1]) / path.name).write_text(shorten(json.loads(path.read_text())))
