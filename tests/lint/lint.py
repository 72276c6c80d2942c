#!/usr/bin/python3
"""Checks the tree against the rules of the house. Standard library only.

lint.py [--root DIR] [--build DIR] [--junit FILE] [--only RULE,...]
Exit 1 if a rule is broken. --build keeps the cache and holds the generated proto headers.
"""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import junit  # noqa: E402
from rules import constructs, format, headers, includes, length, links, readmes, words  # noqa: E402
from tree import Tree  # noqa: E402


def rules(build):
    return {
        "includes": includes.check,
        "links": links.check,
        "length": length.check,
        "format": format.check,
        "words": words.check,
        "constructs": constructs.check,
        "readmes": readmes.check,
        "headers": lambda tree: headers.check(tree, build),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build", help="build folder of the cpu preset")
    parser.add_argument("--junit", help="file to write the results to")
    parser.add_argument("--only", help="rules to run, separated by commas")
    arguments = parser.parse_args()

    tree = Tree(arguments.root)
    known = rules(arguments.build)
    chosen = arguments.only.split(",") if arguments.only else list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        parser.error(f"unknown rule {unknown[0]}; there are {', '.join(known)}")
    cases = []
    for name in chosen:
        start = time.monotonic()
        found = [str(violation) for violation in known[name](tree)]
        cases.append(junit.Case("lint", name, time.monotonic() - start, "\n".join(found)))
        print(f"lint {name}: {len(found) or 'ok'} ({cases[-1].seconds:.1f} s)")
        for line in found:
            print(f"  {line}")
    if arguments.junit:
        junit.write(arguments.junit, cases)
    return 1 if any(case.failure for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
