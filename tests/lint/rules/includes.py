"""Which folder may include what: the table of README.md, read against every #include."""

from tree import Violation

OURS = {
    "proto": (),
    "kernels": ("kernels",),
    "scheduler": ("scheduler",),
    "engine": ("engine", "kernels", "scheduler"),
    "server": ("server", "engine", "proto"),
    "tests": ("tests", "server", "engine", "scheduler", "kernels", "proto"),
}

# Prefix of an include, and the paths that may hold it.
THIRD_PARTY = (
    ("absl/", ("kernels/", "scheduler/", "engine/", "server/", "tests/")),
    ("cuda", ("kernels/cuda/",)),
    ("cub/", ("kernels/cuda/",)),
    ("cublas", ("kernels/cuda/",)),
    ("cute/", ("kernels/cuda/",)),
    ("cutlass/", ("kernels/cuda/",)),
    ("nccl", ("kernels/cuda/",)),
    ("oneapi/dnnl", ("kernels/cpu/",)),
    ("dnnl", ("kernels/cpu/",)),
    ("hwy/", ("kernels/cpu/",)),
    ("omp.h", ("kernels/cpu/",)),
    ("immintrin.h", ("kernels/cpu/",)),
    ("cpuid.h", ("kernels/cpu/",)),
    ("nlohmann/", ("engine/", "server/", "tests/")),
    ("pcre2.h", ("engine/",)),
    ("utf8proc.h", ("engine/",)),
    ("oniguruma.h", ("tests/",)),
    ("boost/", ("server/", "tests/")),
    ("grpc/", ("server/", "tests/")),
    ("grpcpp/", ("server/", "tests/")),
    ("google/protobuf/", ("server/", "tests/")),
    ("prometheus/", ("server/", "tests/")),
    ("gtest/", ("tests/",)),
    ("gmock/", ("tests/",)),
    ("benchmark/", ("tests/",)),
)

# Slow to compile: one translation unit each, never a header of the product.
NOT_IN_HEADERS = ("nlohmann/json.hpp", "boost/", "grpcpp/", "grpc/")

# The scheduler is integers: no thread, clock, log or random source of its own.
NOT_IN_SCHEDULER = ("thread", "mutex", "condition_variable", "atomic", "chrono", "iostream", "random", "future")

POSIX = ("sys/", "arpa/", "netinet/", "linux/")
POSIX_HEADERS = (
    "unistd.h", "fcntl.h", "poll.h", "pthread.h", "sched.h", "signal.h", "dlfcn.h", "netdb.h", "malloc.h",
    "spawn.h", "dirent.h", "stdlib.h", "string.h", "stdio.h", "time.h",
)


def _third_party(path, target):
    for prefix, allowed in THIRD_PARTY:
        if target.startswith(prefix):
            if not path.startswith(allowed):
                return f"includes {target}, which only {', '.join(allowed)} may"
            return None
    return f"includes {target}, which tests/lint/rules/includes.py does not know"


def _standard(path, target):
    if path.startswith("scheduler/") and target in NOT_IN_SCHEDULER:
        return f"includes <{target}>: scheduler/ has no thread, clock, log or random source"
    return None


def _is_standard(target):
    return "/" not in target and "." not in target or target.startswith(POSIX) or target in POSIX_HEADERS


def _judge(tree, path, include):
    folder = path.split("/")[0]
    target = include.target
    if target.startswith((".", "/")):
        return f'includes "{target}": includes are from the root'
    if path.endswith(".h") and folder != "tests":
        if target.startswith(NOT_IN_HEADERS) or target.endswith(".grpc.pb.h"):
            return f"includes {target} in a header"
    owner = "proto" if target.startswith("thresher/v1/") else target.split("/")[0]
    if owner in OURS and "/" in target:
        if folder not in OURS or owner not in OURS[folder]:
            return f'includes "{target}": {folder}/ may include {", ".join(OURS.get(folder, ())) or "nothing"}'
        if not include.quoted:
            return f"includes <{target}> with angle brackets"
        if owner != "proto" and not tree.exists(target):
            return f'includes "{target}", which does not exist'
        return None
    if not include.quoted and _is_standard(target):
        return _standard(path, target)
    if include.quoted and "/" not in target and not any(target.startswith(row[0]) for row in THIRD_PARTY):
        return f'includes "{target}": includes are from the root'
    return _third_party(path, target)


def check(tree):
    for path in tree.cxx():
        for include in tree.includes(path):
            message = _judge(tree, path, include)
            if message:
                yield Violation(path, include.line, message)
