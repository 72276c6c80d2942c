"""grpcio against the real server; the stubs are made from proto/ at test time."""

import time

import grpc
import pytest
from conftest import LIMIT
from grpc_health.v1 import health_pb2, health_pb2_grpc


def generate(stubs, channel, timeout=LIMIT, metadata=None, **fields):
    messages, services, _ = stubs
    call = services.InferenceServiceStub(channel).Generate(
        messages.GenerateRequest(**fields), timeout=timeout, metadata=metadata
    )
    events = list(call)
    assert events[0].HasField("started") and events[-1].HasField("usage")
    return "".join(event.chunk.text for event in events), events


def failure(stubs, channel, **fields):
    with pytest.raises(grpc.RpcError) as error:
        generate(stubs, channel, **fields)
    return error.value


def test_generate_streams_what_http_says(server, client, stubs, channel):
    messages, _, _ = stubs
    text, events = generate(
        stubs, channel, text="The sky is", max_tokens=12, sampling=messages.SamplingOptions(temperature=0)
    )
    answer = client.completions.create(model="default", prompt="The sky is", max_tokens=12, temperature=0)
    assert text == answer.choices[0].text
    assert len(events) > 5
    assert events[-1].usage.completion_tokens == answer.usage.completion_tokens
    assert events[-1].usage.attention_details.decode_policy == "dense"


def test_choices_logprobs_and_token_ids(stubs, channel):
    messages, _, _ = stubs
    _, events = generate(
        stubs, channel, token_ids=messages.TokenIds(ids=[40, 41, 42]), max_tokens=3, n=2,
        output=messages.OutputOptions(logprobs=2, return_token_ids=True),
        stopping=messages.StopOptions(ignore_eos=True),
    )
    ids = {0: [], 1: []}
    for event in events:
        if event.HasField("chunk"):
            ids[event.chunk.index] += event.chunk.token_ids
            for logprob in event.chunk.logprobs:
                assert len(logprob.top) == 2 and logprob.logprob <= 0
    assert [len(tokens) for tokens in ids.values()] == [3, 3]
    assert list(events[0].started.prompt_token_ids) == [40, 41, 42]


def test_errors(stubs, channel):
    messages, _, attention = stubs
    nan = messages.SamplingOptions(temperature=float("nan"))
    assert failure(stubs, channel).code() == grpc.StatusCode.INVALID_ARGUMENT
    error = failure(stubs, channel, text="x", sampling=nan)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "temperature" in error.details()
    assert failure(stubs, channel, text="x", model="other").code() == grpc.StatusCode.NOT_FOUND
    options = attention.AttentionOptions(
        decode=attention.DecodeAttention(top_theta=attention.TopThetaAttention(k=256))
    )
    error = failure(stubs, channel, text="x", attention=options)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "attention.decode" in error.details()
    error = failure(stubs, channel, text="x", attention=attention.AttentionOptions(level="extreme"))
    assert "attention.level" in error.details()
    bytes_as_text = messages.GenerateRequest(text="x").SerializeToString().replace(b"x", b"\xff")
    call = channel.unary_stream("/thresher.v1.InferenceService/Generate")
    with pytest.raises(grpc.RpcError) as refused:
        list(call(bytes_as_text))
    # gRPC's own word for a message that does not parse.
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert generate(stubs, channel, text="x", max_tokens=1)


def test_a_deadline_and_a_cancel_free_the_blocks(server, stubs, channel):
    messages, services, _ = stubs
    request = dict(text="Count: 1 2 3", max_tokens=1800, stopping=messages.StopOptions(ignore_eos=True))
    assert failure(stubs, channel, timeout=0.3, **request).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    server.wait_idle()
    call = services.InferenceServiceStub(channel).Generate(messages.GenerateRequest(**request))
    next(call)
    call.cancel()
    server.wait_idle()


def test_abort(server, stubs, channel):
    messages, services, _ = stubs
    stub = services.InferenceServiceStub(channel)
    call = stub.Generate(
        messages.GenerateRequest(
            text="Count: 1 2 3", max_tokens=1800, request_id="mine", stopping=messages.StopOptions(ignore_eos=True)
        )
    )
    assert next(call).started.request_id == "mine"
    next(call)
    stub.Abort(messages.AbortRequest(request_id="mine"))
    with pytest.raises(grpc.RpcError) as error:
        list(call)
    assert error.value.code() == grpc.StatusCode.CANCELLED
    with pytest.raises(grpc.RpcError) as error:
        stub.Abort(messages.AbortRequest(request_id="mine"))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_tokens_models_policies_and_load(stubs, channel):
    messages, services, _ = stubs
    stub = services.InferenceServiceStub(channel)
    tokens = stub.Tokenize(messages.TokenizeRequest(text="Hello \U0001f600")).token_ids
    assert stub.Detokenize(messages.DetokenizeRequest(token_ids=tokens)).text == "Hello \U0001f600"
    assert stub.ListModels(messages.ListModelsRequest()).models[0].max_model_len >= 2048
    policies = stub.ListAttentionPolicies(messages.ListAttentionPoliciesRequest())
    assert [policy.name for policy in policies.policies] == [
        "dense", "top_theta", "stem", "uniform", "streaming", "xattention"
    ]
    assert policies.default_level == "off"
    assert stub.GetLoad(messages.GetLoadRequest()).running == 0


def test_health_follows_loading_and_draining(start_server):
    server = start_server("--drain-seconds", "30")
    serving = health_pb2.HealthCheckResponse.SERVING
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        server.wait_ready()
        for service in ("", "thresher.v1.InferenceService"):
            request = health_pb2.HealthCheckRequest(service=service)
            deadline = time.monotonic() + LIMIT
            while stub.Check(request).status != serving:
                assert time.monotonic() < deadline
        with pytest.raises(grpc.RpcError) as error:
            stub.Check(health_pb2.HealthCheckRequest(service="nope"))
        assert error.value.code() == grpc.StatusCode.NOT_FOUND
        stream = iter(
            server.client().completions.create(
                model="default", prompt="x", max_tokens=400, stream=True, extra_body={"ignore_eos": True}
            )
        )
        next(stream)
        server.process.terminate()
        server.wait_for("draining")
        assert stub.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        for _ in stream:
            pass
    assert server.process.wait(LIMIT) == 0


def test_reflection_lists_the_service(channel):
    # ServerReflectionRequest{list_services: "*"} of grpc.reflection.v1alpha, written by hand: one field.
    call = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    answer = next(call(iter([b"\x3a\x01*"])))
    assert b"thresher.v1.InferenceService" in answer
    assert b"grpc.health.v1.Health" in answer
