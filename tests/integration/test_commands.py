"""The commands beside `serve`, with a model that needs no file."""

import json
import subprocess

import pytest
from conftest import LIMIT, Server

TINY = "synthetic:tiny"


def run(paths, *arguments):
    return subprocess.run([str(paths[0]), *arguments], capture_output=True, text=True, timeout=LIMIT)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_generates_with_random_weights_and_says_so(paths):
    arguments = ["generate", "--model", TINY, "--prompt", "hello", "--max-tokens", "5", "--temperature", "0"]
    first, second = run(paths, *arguments), run(paths, *arguments)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout and first.stdout.strip()
    assert "event=random_weights model=synthetic:tiny" in first.stderr


def test_an_unknown_shape_lists_the_known(paths):
    answer = run(paths, "generate", "--model", "synthetic:huge", "--prompt", "x")
    assert answer.returncode == 1
    assert "llama-3.1-8b, llama-3.1-70b, qwen3-8b, tiny" in answer.stderr


def test_serves_random_weights(paths):
    server = Server(paths[0], TINY)
    try:
        server.wait_ready()
        completion = server.client().completions.create(model="default", prompt=[300, 7, 511], max_tokens=4)
        assert completion.usage.completion_tokens == 4
        assert completion.choices[0].finish_reason == "length"
        load = run(paths, "bench", "serve", "--port", server.url.rsplit(":", 1)[1], "--model", "default",
                   "--concurrency", "2", "--requests", "4", "--prompt-tokens", "8", "--output-tokens", "4")
        assert load.returncode == 0, load.stderr
        assert json_lines(load.stdout)[0]["failed"] == 0
    finally:
        server.kill()


def test_bench_step_prints_a_line_a_case(paths):
    answer = run(paths, "bench", "step", "--model", TINY, "--decode", "1x32", "4x64", "--prefill", "100",
                 "--steps", "4", "--repetitions", "1", "--bandwidth", "10", "--tflops", "0.01", "--commit", "c")
    assert answer.returncode == 0, answer.stderr
    lines = {line["case"]: line for line in json_lines(answer.stdout)}
    for case in ("decode_1x32", "decode_4x64", "first_token_100"):
        assert lines[case]["value"] > 0 and lines[case]["unit"] == "ms"
        assert lines[case]["ratio_to_floor"] == pytest.approx(lines[case]["floor"] / lines[case]["value"])
    assert lines["agreement"]["value"] == 1
    assert lines["bandwidth"]["value"] == 10


def test_bench_offline_serves_requests(paths):
    answer = run(paths, "bench", "offline", "--model", TINY, "--requests", "6", "--prompt-tokens", "20",
                 "--output-tokens", "5", "--concurrency", "3")
    assert answer.returncode == 0, answer.stderr
    (line,) = json_lines(answer.stdout)
    assert line["case"] == "requests_20_5_at_3" and line["value"] > 0 and line["agreement"]


@pytest.mark.parametrize(
    "arguments,part",
    [
        (["bench", "step", "--model", TINY], "--decode"),
        (["bench", "step", "--model", TINY, "--decode", "8"], "BATCHxCONTEXT"),
        (["bench", "step", "--model", TINY, "--decode", "8x32", "--device", "tpu"], "--device is 'tpu'"),
        (["bench", "offline", "--model", TINY, "--requests", "-1"], "--requests is -1"),
        (["calibrate", "--model", TINY, "--text", "x", "--out", "y", "--device", "cuda"], "--device cuda"),
        (["evaluate", "--model", TINY, "--text", "x", "--attention", "off", "--device", "cuda"], "--device cuda"),
        (["calibrate", "--model", TINY, "--text", "x", "--out", "y", "--device", "tpu"], "--device is 'tpu'"),
    ],
)
def test_bad_flags_are_named(paths, arguments, part):
    answer = run(paths, *arguments)
    assert answer.returncode == 2
    assert part in answer.stderr


# Without the plugin or without a driver: refused with a reason, not served by another device.
@pytest.mark.parametrize(
    "command",
    [
        ["generate", "--prompt", "x"],
        ["bench", "offline", "--requests", "1"],
        ["bench", "offline"],
        ["bench", "step", "--decode", "1x32"],
    ],
)
def test_cuda_is_honoured_or_refused(paths, command):
    answer = run(paths, *command, "--model", TINY, "--device", "cuda")
    if answer.returncode != 0:
        assert "CUDA" in answer.stderr
    else:
        assert "cuda" in answer.stdout or command[0] == "generate"
