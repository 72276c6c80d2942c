#!/usr/bin/python3
"""Counts gtest and junit XML files and prints the failures, the stages' times and the totals.

test_summary.py DIR
DIR holds <stage>/*.xml and stages.tsv (name, seconds, exit status, log). A stage that failed without
a failed test in its XML (a build error, a crash) counts as one failure, shown with the end of its log.
A stage that passed without any XML counts as one test. Exit 1 unless everything passed.
"""

import dataclasses
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

LOG_TAIL = 60


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def read_xml(path, counts, failures):
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        # A binary that died while writing leaves half a file.
        counts.failed += 1
        failures.append((f"{path.parent.name}/{path.name}", f"is not XML: {error}"))
        return
    for case in root.iter("testcase"):
        problems = [child for child in case if child.tag in ("failure", "error")]
        if problems:
            counts.failed += 1
            name = f"{path.parent.name}: {case.get('classname')}.{case.get('name')}"
            text = "\n".join((child.text or child.get("message") or "").strip() for child in problems)
            failures.append((name, text))
        elif case.find("skipped") is not None:
            counts.skipped += 1
        elif case.get("status") != "notrun":  # gtest's word for a disabled test
            counts.passed += 1


def read_stage(folder, name, status, log, failures):
    counts = Counts()
    for path in sorted((folder / name).glob("*.xml")):
        read_xml(path, counts, failures)
    if status == 77:  # the stage said why it cannot run here
        counts.skipped += 1
    elif status != 0 and counts.failed == 0:
        counts.failed += 1
        lines = pathlib.Path(log).read_text(errors="replace").splitlines()
        failures.append((f"{name}: exit status {status}", "\n".join(lines[-LOG_TAIL:])))
    elif status == 0 and counts == Counts():
        counts.passed += 1
    return counts


def main():
    folder = pathlib.Path(sys.argv[1])
    total = Counts()
    failures = []
    rows = []
    for line in (folder / "stages.tsv").read_text().splitlines():
        name, seconds, status, log = line.split("\t")
        counts = read_stage(folder, name, int(status), log, failures)
        total.add(counts)
        rows.append((name, int(seconds), counts))
    for name, text in failures:
        print(f"\nFAILED {name}")
        for line in text.splitlines()[:LOG_TAIL]:
            print(f"    {line}")
    print(f"\n{'stage':<12} {'seconds':>7} {'passed':>7} {'failed':>7} {'skipped':>7}")
    for name, seconds, counts in rows:
        print(f"{name:<12} {seconds:>7} {counts.passed:>7} {counts.failed:>7} {counts.skipped:>7}")
    print(f"{'all':<12} {sum(row[1] for row in rows):>7}")
    if total.passed == 0 and total.failed == 0:
        total.failed = 1  # Nothing ran, which is no pass.
    tail = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{tail}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
