"""Every header compiles alone. Results are kept by content, so that a rerun costs nothing.

A header that its own source includes first has been compiled alone by the build."""

import concurrent.futures
import hashlib
import pathlib
import shutil
import subprocess

from tree import Violation

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I."]
# As in kernels/CMakeLists.txt: files named after an instruction set are compiled for it.
SIMD = {
    "_avx2": ["-mavx2", "-mfma", "-mf16c"],
    "_avx512": ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"],
    "_avx512bf16": ["-mavx512vbmi", "-mavx512bf16"],
}


def _flags(path, generated):
    flags = list(FLAGS)
    for name, options in SIMD.items():
        if name in pathlib.PurePath(path).name:
            flags += options
    if generated:
        flags += ["-isystem", str(generated)]
    return flags


def _built_alone(tree, path):
    source = path.removesuffix(".h") + ".cc"
    if not tree.exists(source) or "#pragma once" not in tree.text(path):
        return False
    includes = tree.includes(source)
    return bool(includes) and includes[0].quoted and includes[0].target == path


def _compile(tree, compiler, path, flags, cache):
    key = hashlib.sha256("\0".join([compiler, *flags, tree.digest(path)]).encode()).hexdigest()
    stamp = cache / key if cache else None
    if stamp is not None and stamp.exists():
        return None
    # Read from standard input, since a header as the main file warns about #pragma once.
    command = [compiler, *flags, "-x", "c++", "-"]
    source = f'#include "{path}"\n#include "{path}"\n'
    result = subprocess.run(command, cwd=tree.root, input=source, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        if stamp is not None:
            stamp.touch()
        return None
    return Violation(path, 1, f"does not compile alone:\n{result.stderr.strip()[:2000]}")


def check(tree, build=None, jobs=2):
    compiler = shutil.which("g++")
    if compiler is None:
        yield Violation("CMakeLists.txt", 1, "g++ is not installed (deploy/install_packages.sh)")
        return
    cache = pathlib.Path(build) / "lint_headers" if build else None
    if cache:
        cache.mkdir(parents=True, exist_ok=True)
    generated = pathlib.Path(build).resolve() / "generated" if build else None
    headers = [
        path for path in tree.headers()
        if not path.startswith("kernels/cuda/") and not _built_alone(tree, path)
    ]
    for path in headers:  # Digests are cached in the tree, which threads must not share half done.
        tree.digest(path)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(
            lambda path: _compile(tree, compiler, path, _flags(path, generated), cache), headers
        )
        yield from (violation for violation in results if violation)
