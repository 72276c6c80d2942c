"""Attention by request, on a table that the binary calibrates for the real model."""

import json
import pathlib
import subprocess

import grpc
import pytest

from conftest import LIMIT, ROOT, Server

PROMPT = " ".join(f"Line {i} says that the answer to question {i * 7} is {i * 13}." for i in range(60))
ROWS = ["v_rows_total", "v_rows_read", "k_rows_read", "kv_bytes_read", "kv_bytes_dense"]


@pytest.fixture(scope="module")
def table(paths, tmp_path_factory):
    binary, model = paths
    folder = tmp_path_factory.mktemp("thresholds")
    text = folder / "text.txt"
    sources = sorted(ROOT.glob("*/README.md")) + [ROOT / "README.md"]
    text.write_text("\n".join(pathlib.Path(source).read_text() for source in sources))
    out = folder / "table"
    subprocess.run(
        [binary, "calibrate", "--model", model, "--text", text, "--out", out, "--max-length", "1024", "--windows", "2",
         "--quiet"],
        check=True, timeout=LIMIT,
    )
    return out


@pytest.fixture(scope="module")
def sparse_server(paths, table):
    server = Server(*paths, "--threshold-table", str(table), "--shadow-interval", "4")
    try:
        yield server.wait_ready()
    finally:
        server.kill()


def complete(server, attention=None, headers=None, prompt=PROMPT, max_tokens=16):
    body = {"extra_body": {"attention": attention}} if attention is not None else {}
    return server.client().completions.create(
        model="default", prompt=prompt, max_tokens=max_tokens, temperature=0, extra_headers=headers,
        extra_body={"ignore_eos": True, **body.get("extra_body", {})},
    )


def test_top_theta_reads_fewer_rows(sparse_server):
    details = complete(sparse_server, {"decode": {"policy": "top_theta", "k": 64}}).usage.attention_details
    dense = complete(sparse_server).usage.attention_details
    assert details["decode_policy"] == "top_theta" and details["k"] == 64
    assert dense["decode_policy"] == "dense" and "k" not in dense
    assert details["v_rows_total"] == dense["v_rows_total"] == dense["v_rows_read"] > 0
    assert details["k_rows_read"] == details["v_rows_total"]
    assert 0 < details["v_rows_read"] < 0.7 * details["v_rows_total"]
    assert details["kv_bytes_read"] < details["kv_bytes_dense"] == dense["kv_bytes_read"]
    assert details["dense_fallbacks"] == {}


def test_levels_by_body_and_header(sparse_server):
    level = complete(sparse_server, "aggressive").usage.attention_details
    header = complete(sparse_server, headers={"x-attention-level": "aggressive"}).usage.attention_details
    override = complete(sparse_server, {"level": "aggressive", "decode": {"k": 64}}).usage.attention_details
    assert level["decode_policy"] == header["decode_policy"] == "top_theta"
    assert level["prefill_policy"] == "stem"
    assert (level["k"], header["k"], override["k"]) == (128, 128, 64)
    # The prompt is below Stem's shortest.
    assert level["dense_fallbacks"] == {"short_prompt": 1}
    assert level["blocks_selected"] == level["blocks_total"] > 0


@pytest.mark.parametrize(
    "attention, field",
    [
        ({"decode": {"policy": "top_theta", "k": 1}}, "attention.decode.k"),
        ({"decode": {"policy": "top_theta", "k": 100000}}, "attention.decode.k"),
        ({"decode": {"policy": "top_theta", "kk": 64}}, "attention.decode.kk"),
        ({"decode": {"policy": "stem"}}, "attention.decode.policy"),
        ({"prefill": {"policy": "stem", "mu": 1.5}}, "attention.prefill.mu"),
        ({"prefill": {"policy": "oracle"}}, "attention.prefill.policy"),
        ({"level": "extreme"}, "attention.level"),
    ],
)
def test_what_cannot_be_served_names_its_field(sparse_server, attention, field):
    answer = sparse_server.post("/v1/completions", {"prompt": "x", "attention": attention})
    assert answer.status == 400
    assert answer.json()["error"]["param"] == field


def test_policies_are_described(sparse_server):
    status, text = sparse_server.get("/v1/attention/policies")
    assert status == 200
    body = json.loads(text)
    assert [policy["name"] for policy in body["policies"]] == [
        "dense", "top_theta", "stem", "uniform", "streaming", "xattention"
    ]
    assert [level["name"] for level in body["levels"]] == ["off", "light", "balanced", "aggressive"]
    table = body["threshold_table"]
    assert table["loaded"] and table["min_k"] < table["max_k"] and table["min_length"] < table["max_length"]
    k = body["policies"][1]["parameters"][0]
    assert (k["minimum"], k["maximum"]) == (table["min_k"], table["max_k"])


def test_a_second_turn_reads_its_own_blocks_alone(sparse_server):
    choice = {"decode": {"policy": "top_theta", "k": 64}}
    first = complete(sparse_server, choice, prompt="Turn one. " + PROMPT, max_tokens=200)
    again = "Turn one. " + PROMPT + first.choices[0].text + " And then?"
    own = complete(sparse_server, choice, prompt=again).usage
    dense = complete(sparse_server, prompt=again + " More?").usage
    shared = first.usage.prompt_tokens // 64 * 64
    assert own.prompt_tokens_details.cached_tokens > shared
    assert dense.prompt_tokens_details.cached_tokens <= shared


def test_metrics_say_what_was_saved_and_what_it_cost(sparse_server):
    complete(sparse_server, {"decode": {"policy": "top_theta", "k": 64}})
    labels = '{level="custom",policy="top_theta"}'
    total = sparse_server.metric("thresher_attention_v_rows_total" + labels)
    read = sparse_server.metric("thresher_attention_v_rows_read_total" + labels)
    assert 0 < read < total
    assert sparse_server.metric('thresher_attention_selected_per_target_count{row_length="512-2k"}') > 0
    assert sparse_server.metric('thresher_attention_dropped_mass_count{row_length="512-2k"}') > 0
    assert sparse_server.metric("thresher_attention_output_relative_error_count") > 0
    assert sparse_server.metric("thresher_attention_shadow_tokens_total") > 0
    mismatches = sparse_server.metric("thresher_attention_shadow_token_mismatch_total")
    assert mismatches <= sparse_server.metric("thresher_attention_shadow_tokens_total")


def test_grpc_and_http_echo_the_same(sparse_server, stubs):
    messages, services, attention = stubs
    options = attention.AttentionOptions(
        decode=attention.DecodeAttention(top_theta=attention.TopThetaAttention(k=64))
    )
    request = messages.GenerateRequest(
        text=PROMPT, max_tokens=16, attention=options, sampling=messages.SamplingOptions(temperature=0),
        stopping=messages.StopOptions(ignore_eos=True),
    )
    with grpc.insecure_channel(sparse_server.grpc_address) as channel:
        events = list(services.InferenceServiceStub(channel).Generate(request, timeout=LIMIT))
        policies = services.InferenceServiceStub(channel).ListAttentionPolicies(
            messages.ListAttentionPoliciesRequest(), timeout=LIMIT
        )
    details = events[-1].usage.attention_details
    echoed = complete(sparse_server, {"decode": {"policy": "top_theta", "k": 64}}).usage.attention_details
    assert details.k == 64
    for name in ROWS:
        assert getattr(details, name) == echoed[name], name
    assert policies.threshold_table_loaded and policies.min_k < policies.max_k


def test_a_level_without_its_table_stops_the_start(start_server, tmp_path):
    server = start_server("--default-level", "balanced")
    assert server.process.wait(LIMIT) != 0
    keys = tmp_path / "keys"
    keys.write_text("secret level=light\n")
    server = start_server("--api-keys", str(keys))
    assert server.process.wait(LIMIT) != 0


def test_a_damaged_table_stops_the_start(start_server, table, tmp_path):
    damaged = tmp_path / "table"
    damaged.write_bytes(table.read_bytes()[:-100])
    server = start_server("--threshold-table", str(damaged))
    assert server.process.wait(LIMIT) != 0


def test_generate_takes_the_block(paths, table):
    binary, model = paths
    result = subprocess.run(
        [binary, "generate", "--model", model, "--threshold-table", table, "--prompt", PROMPT, "--max-tokens", "8",
         "--temperature", "0", "--quiet", "--attention", '{"decode":{"policy":"top_theta","k":64}}'],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert result.returncode == 0, result.stderr
    refused = subprocess.run(
        [binary, "generate", "--model", model, "--prompt", "x", "--attention", "balanced"],
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert refused.returncode != 0 and "thresher calibrate" in refused.stderr


@pytest.fixture(scope="module")
def short_table(paths, tmp_path_factory):
    """Of rows of up to 64 keys, so that rows are sparse up to 512."""
    binary, model = paths
    folder = tmp_path_factory.mktemp("short_thresholds")
    text = folder / "text.txt"
    text.write_text((ROOT / "README.md").read_text())
    out = folder / "table"
    subprocess.run(
        [binary, "calibrate", "--model", model, "--text", text, "--out", out, "--max-length", "64", "--windows", "8",
         "--quiet"],
        check=True, timeout=LIMIT,
    )
    return out


def test_rows_too_long_for_the_table_are_dense_and_counted(start_server, short_table):
    server = start_server("--threshold-table", str(short_table)).wait_ready()
    choice = {"decode": {"policy": "top_theta", "k": 16}}
    usage = complete(server, choice).usage
    assert usage.prompt_tokens > 512
    assert usage.attention_details["dense_fallbacks"] == {"long_row": 15}
    assert usage.attention_details["v_rows_read"] == usage.attention_details["v_rows_total"]
    short = complete(server, choice, prompt=PROMPT[:600]).usage
    assert 16 < short.prompt_tokens < 400
    assert short.attention_details["dense_fallbacks"] == {}
    assert short.attention_details["v_rows_read"] < short.attention_details["v_rows_total"]
    labels = '{level="custom",policy="top_theta",reason="long_row"}'
    assert server.metric("thresher_attention_dense_fallback_total" + labels) >= 15


def test_a_context_too_long_for_the_table_is_said_at_the_start(paths, table, short_table):
    binary, model = paths
    for used, expected in ((short_table, "calibrated_length=64 longest_sparse_row=512 max_model_len=8192"), (table, "")):
        result = subprocess.run(
            [binary, "generate", "--model", model, "--threshold-table", used, "--prompt", "x", "--max-tokens", "1"],
            capture_output=True, text=True, timeout=LIMIT,
        )
        assert result.returncode == 0, result.stderr
        assert ("event=threshold_table_short" in result.stderr) == bool(expected)
        assert expected in result.stderr
