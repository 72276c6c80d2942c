"""The link lines of each folder's CMake targets against the same table as its includes."""

import re

from tree import Violation

# Per folder: our libraries, third-party names that may be PUBLIC, and those that must be PRIVATE.
TABLE = {
    "proto": (("thresher_proto",), ("protobuf::", "gRPC::"), ()),
    "kernels": (
        ("thresher_options",),
        ("absl::",),
        ("Threads::", "OpenMP::", "${DNNL_LIBRARY}", "PkgConfig::HWY", "CUDA::", "${NCCL_LIBRARY}", "${CMAKE_DL_LIBS}"),
    ),
    "scheduler": (("thresher_options",), ("absl::",), ()),
    "engine": (
        ("thresher_options", "thresher_kernels", "thresher_scheduler"),
        ("absl::",),
        ("nlohmann_json::", "PkgConfig::PCRE2", "PkgConfig::UTF8PROC", "Threads::"),
    ),
    "server": (
        ("thresher_options", "thresher_engine", "thresher_proto", "thresher_server"),
        ("absl::",),
        ("gRPC::", "protobuf::", "PkgConfig::PROMETHEUS", "Boost::", "nlohmann_json::", "Threads::"),
    ),
}

_LINK = re.compile(r"target_link_libraries\s*\(([^)]*)\)", re.DOTALL)


def _judge(folder, tokens):
    ours, public, private = TABLE[folder]
    scope = "PUBLIC"
    for token in tokens:
        if token in ("PUBLIC", "PRIVATE", "INTERFACE"):
            scope = token
        elif token.startswith("thresher_"):
            # A folder may cut its code into several targets of its own.
            if token not in ours and not token.startswith(f"thresher_{folder}"):
                yield f"links {token}: {folder}/ may link {', '.join(ours)}"
        elif token.startswith(private):
            if scope != "PRIVATE":
                yield f"links {token} as {scope}: it must be PRIVATE"
        elif not token.startswith(public):
            yield f"links {token}, which tests/lint/rules/links.py does not allow in {folder}/"


def check(tree):
    for folder in TABLE:
        if not tree.exists(f"{folder}/CMakeLists.txt"):
            yield Violation(f"{folder}/CMakeLists.txt", 1, "is missing: one target per folder")
    for path in tree.paths:
        folder = path.split("/")[0]
        if folder not in TABLE or not path.endswith("/CMakeLists.txt"):
            continue
        text = re.sub(r"#[^\n]*", "", tree.text(path))
        for match in _LINK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            for message in _judge(folder, match.group(1).split()[1:]):
                yield Violation(path, line, message)
