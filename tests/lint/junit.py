"""Writes results in the form that deploy/scripts/test_summary.py counts."""

import dataclasses
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass(frozen=True)
class Case:
    suite: str
    name: str
    seconds: float
    failure: str  # Empty when passed.


def write(path, cases):
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=cases[0].suite if cases else "empty")
    for case in cases:
        element = ElementTree.SubElement(
            suite, "testcase", classname=case.suite, name=case.name, time=f"{case.seconds:.3f}"
        )
        if case.failure:
            failure = ElementTree.SubElement(element, "failure", message=case.failure.splitlines()[0])
            failure.text = case.failure
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
