"""Words and paths that say where a file was written instead of what it is for."""

import re

from tree import Violation

# This folder holds the words as patterns, and the self-test as samples.
EXEMPT = ("tests/lint/", "LICENSE")

PATTERNS = (
    (re.compile(r"(?<![\w.~$}/-])/(?:work|root|home|workspace|Users)(?:/|\b(?![\w*/(.-]))"), "an absolute path of one machine"),
    (re.compile(r"\bTODO\b(?!\([\w.-]+\): \S)"), "a TODO without `(name): what is missing`"),
    (re.compile(r"\b(?:FIXME|XXX|HACK)\b"), "an unfinished place"),
    (re.compile(r"\b(?:issue|ticket|task) #?\d+\b", re.IGNORECASE), "the number of an issue"),
    (re.compile(r"\b(?:worktree|workplace|co-authored-by)\b", re.IGNORECASE), "a word of the workplace"),
    (re.compile(r"\b(?:this|other|another) (?:session|helper|agent)\b", re.IGNORECASE), "a word of the workplace"),
    (re.compile(r"\b(?:claude|anthropic|copilot|chatgpt-written)\b", re.IGNORECASE), "a word of the workplace"),
    (re.compile(r"(?:pypi\.org|pythonhosted\.org|registry\.npmjs|crates\.io|proxy\.golang|/opt/wheels)"), "the host of a registry"),
)


def check(tree):
    for path in tree.paths:
        if path.startswith(EXEMPT) or not tree.is_text(path):
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for pattern, what in PATTERNS:
                match = pattern.search(line)
                if match:
                    yield Violation(path, number, f"has {what}: {match.group(0).strip()!r}")
