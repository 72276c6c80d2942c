#!/usr/bin/python3
"""Writes the XML that a test binary did not live to write: one failure with the end of its log.

junit_failure.py XML NAME MESSAGE LOG
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import junit  # noqa: E402

TAIL = 40


def main():
    target, name, message, log = sys.argv[1:]
    lines = pathlib.Path(log).read_text(errors="replace").splitlines()[-TAIL:]
    junit.write(target, [junit.Case("crash", name, 0.0, "\n".join([message, *lines]))])


if __name__ == "__main__":
    main()
