"""C++ that CONVENTIONS forbids and a regular expression can find, outside comments and literals."""

import re

from tree import Violation, code_only

# Pattern, what it is, and the paths that may have it.
PATTERNS = (
    (re.compile(r"\bdynamic_cast\b"), "dynamic_cast", ()),
    (re.compile(r"\btypeid\b"), "typeid", ()),
    (re.compile(r"\busing\s+namespace\b"), "using namespace", ()),
    (re.compile(r"#\s*define\s+private\b"), "#define private", ()),
    (re.compile(r"\b(?:secure_)?getenv\b"), "an environment read", ("server/", "tests/")),
    (
        re.compile(r"^[ \t]*#\s*(?:if|ifdef|ifndef|elif)\b[^\n]*(?:CUDA|NVCC)", re.MULTILINE),
        "#if on CUDA",
        ("kernels/backend.cc", "kernels/cuda/"),
    ),
    (re.compile(r"\bstd::(?:cout|cerr|clog)\b"), "console output", ("server/", "tests/", "engine/bench/")),
    (
        re.compile(r"\b(?:class|struct)\s+(?:\w*(?:Manager|Helper|Utils?|Impl|Base))\b(?!\s*;)"),
        "a name that says no job",
        (),
    ),
)


def check(tree):
    for path in tree.cxx():
        if tree.is_generated(path):
            continue
        code = code_only(tree.text(path))
        for pattern, what, allowed in PATTERNS:
            if allowed and path.startswith(allowed):
                continue
            for match in pattern.finditer(code):
                line = code.count("\n", 0, match.start()) + 1
                yield Violation(path, line, f"has {what}")
