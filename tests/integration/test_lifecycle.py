"""Start, overload, drain, failure, keys, metrics: what an operator sees of the process."""

import concurrent.futures
import shutil
import signal
import subprocess

import openai
import pytest
from conftest import LIMIT


def generate_long(client, tokens=1500):
    return client.completions.create(
        model="default", prompt="Count: 1 2 3", max_tokens=tokens, stream=True, extra_body={"ignore_eos": True}
    )


def test_alive_while_loading_and_then_ready(start_server):
    server = start_server()
    assert server.get("/livez")[0] == 200
    assert server.get("/metrics")[0] == 200
    server.wait_ready()
    assert server.get("/readyz")[0] == 200


def test_overload_is_429_with_retry_after(start_server):
    server = start_server("--max-running", "1", "--max-queued-requests", "2").wait_ready()
    client = server.client()
    streams = [generate_long(client)]
    next(iter(streams[0]))
    streams += [generate_long(client), generate_long(client)]
    with pytest.raises(openai.RateLimitError) as error:
        generate_long(client)
    assert int(error.value.response.headers["retry-after"]) >= 1
    assert server.metric('thresher_requests_total{outcome="rejected"}') == 1
    for stream in streams:
        stream.close()
    server.wait_idle()


def test_sigterm_drains(start_server):
    server = start_server("--drain-seconds", "60").wait_ready()
    client = server.client()
    stream = iter(generate_long(client, 300))
    next(stream)
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("draining")
    assert server.get("/readyz")[0] == 503
    assert server.get("/livez")[0] == 200
    with pytest.raises(openai.InternalServerError) as error:
        generate_long(client)
    assert error.value.status_code == 503
    assert error.value.response.headers["retry-after"]
    finishes = [chunk.choices[0].finish_reason for chunk in stream]
    assert finishes[-1] == "length"
    assert server.process.wait(LIMIT) == 0


def test_the_drain_time_ends_what_is_left_with_an_error_event(start_server):
    server = start_server("--drain-seconds", "1").wait_ready()
    stream = iter(generate_long(server.client(), 1900))
    next(stream)
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError):
        for _ in stream:
            pass
    assert server.process.wait(LIMIT) == 0


def test_a_second_sigterm_ends_now(start_server):
    server = start_server("--drain-seconds", "600").wait_ready()
    stream = iter(generate_long(server.client(), 1900))
    next(stream)
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("draining")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(LIMIT) == 128 + signal.SIGTERM


def test_keys(start_server, tmp_path):
    (tmp_path / "keys").write_text("sesame max_requests=1\nother\n")
    server = start_server("--api-keys", str(tmp_path / "keys")).wait_ready()
    with pytest.raises(openai.AuthenticationError):
        server.client(api_key="wrong").models.list()
    client = server.client(api_key="sesame")
    assert client.models.list().data
    stream = generate_long(client)
    next(iter(stream))
    with pytest.raises(openai.RateLimitError):
        generate_long(client)
    stream.close()
    assert server.client(api_key="other").models.list().data
    assert server.get("/metrics")[0] == 200


def test_metrics_are_clean_before_and_after_a_request(start_server):
    server = start_server().wait_ready()
    before = server.get("/metrics")[1]
    server.client().completions.create(model="default", prompt="x", max_tokens=3, extra_body={"ignore_eos": True})
    server.wait_idle()
    after = server.get("/metrics")[1]
    assert server.metric("thresher_generated_tokens_total") == 3
    assert server.metric('thresher_requests_total{outcome="length"}') == 1
    assert server.metric("thresher_inter_token_seconds_count") == 2
    for name in range(200):
        server.post("/v1/completions", {"model": f"m{name}", "prompt": "x"})
    assert server.get("/metrics")[1].count("\n") == after.count("\n")
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    for text in (before, after):
        check = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True)
        assert check.returncode == 0 and not check.stderr, check.stderr


def test_vllm_names_are_aliases(start_server):
    server = start_server("--vllm-metric-names").wait_ready()
    assert "vllm:num_requests_running{" in server.get("/metrics")[1]


@pytest.mark.parametrize(
    "flags,part",
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--http-port", "eighty"], "--http-port"),
        (["--kv-cache-tokens", "-1"], "--kv-cache-tokens"),
        (["--kv-memory-fraction", "2"], "--kv-memory-fraction"),
        (["--default-level", "fast"], "--default-level"),
        (["--config", "/nonexistent"], "/nonexistent"),
        (["--config", "/tmp"], "--config /tmp is a directory"),
        (["--max-held-body-bytes", "1024"], "--max-held-body-bytes"),
    ],
)
def test_bad_flags_are_named(paths, flags, part):
    run = subprocess.run([str(paths[0]), "serve", "--model", "x", *flags], capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 2
    assert part in run.stderr


def test_a_model_that_is_none_is_an_error(paths, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"\xff" * 64)
    for path in (tmp_path / "bad.gguf", tmp_path / "missing.gguf"):
        run = subprocess.run(
            [str(paths[0]), "serve", "--model", str(path), "--http-port", "0", "--grpc-port", "0"],
            capture_output=True, text=True, timeout=LIMIT,
        )
        assert run.returncode == 1
        assert run.stderr.startswith("thresher: ")


def test_a_port_in_use_is_an_error(paths, start_server):
    server = start_server().wait_ready()
    port = server.url.rsplit(":", 1)[1]
    run = subprocess.run(
        [str(paths[0]), "serve", "--model", str(paths[1]), "--http-port", port, "--grpc-port", "0"],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert run.returncode == 1 and port in run.stderr
    port = server.grpc_address.rsplit(":", 1)[1]
    run = subprocess.run(
        [str(paths[0]), "serve", "--model", str(paths[1]), "--http-port", "0", "--grpc-port", port],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert run.returncode == 1
    # One line, and none of gRPC's own.
    assert run.stderr == f"thresher: cannot listen on 127.0.0.1:{port} for gRPC: Address already in use\n"


def test_many_clients_come_and_go(start_server):
    """Streams cut at random points, with whole ones among them; nothing is left behind."""
    server = start_server("--max-running", "8").wait_ready()
    client = server.client()

    def one(i):
        stream = iter(generate_long(client, 40))
        for count, _ in enumerate(stream):
            if i % 3 and count >= i % 7:
                stream.close() if hasattr(stream, "close") else None
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        finished = sum(pool.map(one, range(48)))
    assert finished >= 16
    server.wait_idle()


def test_generate_on_the_command_line(paths, server):
    local = subprocess.run(
        [str(paths[0]), "generate", "--model", str(paths[1]), "--prompt", "The sky is", "--max-tokens", "8"],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert local.returncode == 0 and local.stdout.strip(), local.stderr
    remote = subprocess.run(
        [str(paths[0]), "generate", "--server", server.grpc_address, "--prompt", "The sky is", "--max-tokens", "8"],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert remote.stdout == local.stdout


def test_output_that_cannot_be_written_is_an_error(paths):
    with open("/dev/full", "w") as full:
        run = subprocess.run([str(paths[0]), "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    assert run.returncode == 1 and "standard output" in run.stderr


def test_bench_serve_prints_a_line(paths, server):
    port = server.url.rsplit(":", 1)[1]
    run = subprocess.run(
        [str(paths[0]), "bench", "serve", "--port", port, "--concurrency", "2", "--requests", "4",
         "--prompt-tokens", "16", "--output-tokens", "8"],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert run.returncode == 0, run.stderr
    assert '"completion_tokens":32' in run.stdout
