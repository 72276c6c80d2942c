"""The ceiling on file length: what does not fit has more than one idea."""

from tree import CXX_SUFFIXES, Violation

SUFFIXES = CXX_SUFFIXES + (".py", ".sh", ".proto", "CMakeLists.txt")
CEILING = 400
KERNEL_CEILING = 600


def check(tree):
    for path in tree.paths:
        if not path.endswith(SUFFIXES) or tree.is_generated(path):
            continue
        ceiling = KERNEL_CEILING if path.endswith("/kernel.cuh") else CEILING
        lines = tree.text(path).count("\n")
        if lines > ceiling:
            yield Violation(path, ceiling + 1, f"has {lines} lines, over the ceiling of {ceiling}")
