"""clang-format over every C++ file."""

import re
import shutil
import subprocess

from tree import Violation

_PLACE = re.compile(r"^(.*?):(\d+):\d+: error: ")
BATCH = 40


def check(tree):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        yield Violation(".clang-format", 1, "clang-format is not installed (deploy/install_packages.sh)")
        return
    files = [path for path in tree.cxx() if not tree.is_generated(path)]
    for start in range(0, len(files), BATCH):
        command = [tool, "--dry-run", "-Werror", "--ferror-limit=1", *files[start : start + BATCH]]
        result = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            continue
        places = [match for match in map(_PLACE.match, result.stderr.splitlines()) if match]
        for place in places:
            yield Violation(place.group(1), int(place.group(2)), "is not formatted (deploy/scripts/format.sh)")
        if not places:
            yield Violation(files[start], 1, f"clang-format failed: {result.stderr.strip()[:300]}")
