"""Every folder of the product explains itself, and nothing else lies at the top."""

from tree import FOLDERS, Violation

TOP = FOLDERS + ("CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE")


def check(tree):
    for path in ("README.md", *(f"{folder}/README.md" for folder in FOLDERS)):
        if not tree.exists(path):
            yield Violation(path, 1, "is missing")
        elif len(tree.text(path).split()) < 50:
            yield Violation(path, 1, "says too little: purpose, contract, how to add a thing, decisions")
    for path in tree.paths:
        top = path.split("/")[0]
        if top not in TOP and not top.startswith("."):
            yield Violation(path, 1, "does not belong at the top level")
