"""The real binary with the real model, and clients of it.

The paths are options, or the variables that deploy/test.sh sets.
"""

import dataclasses
import http.client
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import grpc
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# For things that take a moment: only a machine that does many other things comes near it.
LIMIT = 180
CACHED_MODEL = "~/.cache/thresher/SmolLM2-135M-Instruct.Q4_1.gguf"


def pytest_addoption(parser):
    parser.addoption("--binary", default=os.environ.get("THRESHER_BINARY", str(ROOT / "build/cpu/thresher")))
    parser.addoption("--model", default=os.environ.get("THRESHER_TEST_MODEL") or CACHED_MODEL)


@pytest.fixture(scope="session")
def paths(request):
    binary = pathlib.Path(request.config.getoption("--binary"))
    model = pathlib.Path(request.config.getoption("--model")).expanduser()
    for path in (binary, model):
        if not path.exists():
            if os.environ.get("THRESHER_REQUIRE_MODEL") == "1":
                pytest.fail(f"{path} is not there")
            pytest.skip(f"{path} is not there")
    return binary, model


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    text: str

    def json(self):
        return json.loads(self.text)


class Server:
    """A running `thresher serve`. Its ports are chosen by the system and read from what it prints."""

    def __init__(self, binary, model, *flags):
        command = [str(binary), "serve", "--model", str(model), "--http-port", "0", "--grpc-port", "0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self._news = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            listening = self.wait_for("listening on ").split()
        except BaseException:
            self.kill()
            raise
        self.url = listening[2]
        self.grpc_address = listening[5]

    def _read(self):
        for line in self.process.stdout:
            self._news.put(line.strip())
        self._news.put(None)

    def wait_for(self, start, seconds=LIMIT):
        deadline = time.monotonic() + seconds
        while True:
            line = self._news.get(timeout=max(0.01, deadline - time.monotonic()))
            assert line is not None, f"the server ended before '{start}': {self.lines}"
            self.lines.append(line)
            if line.startswith(start):
                return line

    def wait_ready(self):
        self.wait_for("ready: ")
        return self

    def client(self, **options):
        options = {"max_retries": 0, "timeout": LIMIT, "api_key": "none", **options}
        return openai.OpenAI(base_url=self.url + "/v1", **options)

    def request(self, method, path, body=None):
        """Any answer, errors too. A body that is no bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.url.split("/")[2], timeout=LIMIT)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def get(self, path):
        answer = self.request("GET", path)
        return answer.status, answer.text

    def post(self, path, body):
        return self.request("POST", path, body)

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise KeyError(name)

    def wait_metric(self, name, value, seconds=LIMIT):
        deadline = time.monotonic() + seconds
        while self.metric(name) != value:
            assert time.monotonic() < deadline, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.02)

    def wait_idle(self, seconds=LIMIT):
        self.wait_metric("thresher_requests_running", 0, seconds)
        self.wait_metric('thresher_kv_blocks{state="owned"}', 0, seconds)

    def stop(self, seconds=LIMIT):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def start_server(paths):
    """Starts servers of its own for a test; they are killed at its end."""
    servers = []

    def start(*flags):
        servers.append(Server(*paths, *flags))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def shared_server(paths):
    server = Server(*paths)
    try:
        yield server.wait_ready()
    finally:
        server.kill()


@pytest.fixture
def server(shared_server):
    """The server that most tests share. After each, it must be the same process, well and idle."""
    yield shared_server
    assert shared_server.process.poll() is None, "the server has ended"
    shared_server.wait_idle()
    assert shared_server.get("/health")[0] == 200


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """The generated modules (inference, its gRPC part, attention)."""
    from grpc_tools import protoc

    out = tmp_path_factory.mktemp("proto")
    proto = ROOT / "proto"
    names = ["attention", "inference"]
    include = pathlib.Path(protoc.__file__).parent / "_proto"
    status = protoc.main(
        ["protoc", f"-I{proto}", f"-I{include}", f"--python_out={out}", f"--grpc_python_out={out}"]
        + [str(proto / "thresher/v1" / f"{name}.proto") for name in names]
    )
    assert status == 0
    sys.path.insert(0, str(out))
    from thresher.v1 import attention_pb2, inference_pb2, inference_pb2_grpc

    return inference_pb2, inference_pb2_grpc, attention_pb2


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel
