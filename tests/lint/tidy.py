#!/usr/bin/python3
"""clang-tidy with the committed .clang-tidy over the product's sources, two at a time.

tidy.py --build DIR [--junit FILE] [PATH...]
DIR holds compile_commands.json. A file whose text, includes, flags and checks passed before is
skipped. PATHs, from the root, narrow the run.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import junit  # noqa: E402
from tree import Tree  # noqa: E402

# Tests are left out: googletest's macros triple the time and the compiler's warnings cover them.
PRODUCT = ("kernels/", "scheduler/", "engine/", "server/")

# What clang 14 cannot parse, though GCC compiles it.
UNREADABLE = {
    "kernels/cpu/cpu_isa.cc": "__builtin_cpu_supports has no avx512bf16 there",
    "server/http/http_connection.cc": "its coroutines are std::experimental with libstdc++",
    "server/http/http_frontend.cc": "its coroutines are std::experimental with libstdc++",
}


def commands(tree, build):
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not path.is_relative_to(tree.root):
            continue
        name = str(path.relative_to(tree.root))
        if name in UNREADABLE:
            continue
        if name.startswith(PRODUCT) and tree.exists(name) and not tree.is_generated(name):
            yield name, entry["command"]


def run(tree, tool, build, name, key, cache):
    stamp = cache / key
    if stamp.exists():
        return name, 0.0, ""
    start = time.monotonic()
    # GCC's own warning options are in the compile commands.
    extra = "--extra-arg=-Wno-unknown-warning-option"
    command = [tool, "--quiet", extra, "-p", str(build), name]
    result = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        stamp.touch()
        return name, time.monotonic() - start, ""
    return name, time.monotonic() - start, (result.stdout + result.stderr).strip()[:4000]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build", required=True)
    parser.add_argument("--junit")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()

    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        sys.exit("clang-tidy is not installed (deploy/install_packages.sh)")
    build = pathlib.Path(arguments.build).resolve()
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    tree = Tree(arguments.root)
    work = []
    for name, command in sorted(set(commands(tree, build))):
        if arguments.paths and not name.startswith(tuple(arguments.paths)):
            continue
        parts = (tool, command, tree.text(".clang-tidy"), tree.digest(name))
        work.append((name, hashlib.sha256("\0".join(parts).encode()).hexdigest()))
    if not work:
        sys.exit(f"{build}/compile_commands.json names no source of the product")

    failed = 0
    cases = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, seconds, failure in pool.map(lambda row: run(tree, tool, build, *row, cache), work):
            cases.append(junit.Case("tidy", name, seconds, failure))
            if failure:
                failed += 1
                print(f"tidy: {name}\n{failure}")
    slowest = max(cases, key=lambda case: case.seconds)
    print(f"tidy: {len(cases) - failed} of {len(cases)} files clean; slowest {slowest.name} {slowest.seconds:.1f} s")
    if arguments.junit:
        junit.write(arguments.junit, cases)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
