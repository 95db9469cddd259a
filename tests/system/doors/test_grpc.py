"""KServe v2 and Triton over gRPC: tritonclient as users have it, keys, TLS, deadlines, overload, clients that leave."""
import pathlib
import queue
import socket
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from test_tls import made, tls  # noqa: F401

KSERVE = ("--kserve-grpc", "127.0.0.1:0")
KINDS = {"BYTES": np.object_, "BOOL": np.bool_, "FP32": np.float32, "INT32": np.int32, "UINT64": np.uint64}


@pytest.fixture(scope="module")
def doors():
    from conftest import Gateway
    g = Gateway(*KSERVE, "--pipeline", "fake", "--pipeline", "fake", "--alias", "ensemble")
    assert g.is_ready, g.message
    yield g
    assert g.stop() == 0


@pytest.fixture
def client(doors):
    with triton.InferenceServerClient(doors.grpc["kserve"]) as c:
        yield c


def tensor(name, *values, datatype="BYTES"):
    t = triton.InferInput(name, [len(values)], datatype)
    t.set_data_from_numpy(np.array([v.encode() if isinstance(v, str) else v for v in values], dtype=KINDS[datatype]))
    return t


def streamed(text, *more):
    return [tensor("text_input", text), tensor("stream", True, datatype="BOOL"), *more]


def text_of(result, name="text_output"):
    return [v.decode() for v in result.as_numpy(name)]


def raw_request(text, model="fake", **fields):
    r = service_pb2.ModelInferRequest(model_name=model, **fields)
    r.inputs.add(name="text_input", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text.encode())
    return r


def raw(g):
    return grpc.insecure_channel(g.grpc["kserve"])


def bearer(key):
    return [("authorization", f"Bearer {key}")]


def refusal(call, **fields):
    with pytest.raises(grpc.RpcError) as e:
        call(timeout=20, **fields)
    return e.value


class Stream:
    """tritonclient's stream; its results go into a queue."""

    def __init__(self, client, **fields):
        self.client, self.replies = client, queue.Queue()
        client.start_stream(callback=lambda result, error: self.replies.put((result, error)), **fields)

    def ask(self, *inputs, **fields):
        self.client.async_stream_infer("fake", list(inputs), **fields)

    def next(self, seconds=20):
        return self.replies.get(timeout=seconds)

    def until_end(self):
        """All results up to the one that is marked as the last."""
        results = []
        while not results or not results[-1].get_response().parameters["triton_final_response"].bool_param:
            result, error = self.next()
            assert error is None, error
            results.append(result)
        return results


# -- KServe v2, by Triton's own client --


def test_a_streams_errors_are_messages_whatever_triton_grpc_error_asks_for(client):
    stream = Stream(client, headers={"triton_grpc_error": "true"})
    stream.ask(tensor("no_such_input", "a"))
    result, error = stream.next()
    assert result is None and "no_such_input" in str(error) and error.status() is None
    stream.ask(*streamed("tokens=1"))
    assert "".join(text_of(r)[0] for r in stream.until_end()) == "w0 "
    client.stop_stream()


def test_what_the_client_asks_of_server_and_model(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("fake") and client.is_model_ready("fake", "1")
    assert client.is_model_ready("ensemble")
    with pytest.raises(InferenceServerException, match="not found"):
        client.is_model_ready("nope")
    server = client.get_server_metadata()
    assert server.name == "triton" and server.version == "baton-test" and "statistics" in server.extensions
    model = client.get_model_metadata("fake", as_json=True)
    assert model["versions"] == ["1"] and {"name": "text_input", "datatype": "BYTES", "shape": ["1"]} in model["inputs"]
    config = client.get_model_config("fake").config
    assert config.backend == "baton" and config.model_transaction_policy.decoupled and config.input[0].data_type == 13
    assert config.instance_group[0].count == 2 and config.version_policy.latest.num_versions == 1
    index = client.get_model_repository_index().models
    assert [(m.name, m.version, m.state) for m in index] == [("fake", "1", "READY")]
    client.load_model("fake")
    with pytest.raises(InferenceServerException, match="nodes.toml"):
        client.unload_model("fake")
    with pytest.raises(InferenceServerException, match="config"):
        client.load_model("fake", config="{}")


def test_infer(client):
    r = client.infer("fake", [tensor("text_input", "tokens=3")], request_id="42", model_version="1")
    assert text_of(r) == ["tokens=3w0 w1 w2 "] and r.get_response().id == "42" and r.get_response().model_version == "1"
    alone = tensor("exclude_input_in_output", True, datatype="BOOL")
    flags = [tensor(f"return_{n}", True, datatype="BOOL") for n in ("finish_reason", "num_output_tokens", "cumulative_logprob")]
    r = client.infer("fake", [tensor("text_input", "tokens=9"), alone, *flags, tensor("max_tokens", 2, datatype="INT32"),
                              tensor("stop_words", "##", "$$")], parameters={"n": 2, "logprobs": 1})
    assert text_of(r) == ["w0 w1 "] * 2 and r.as_numpy("num_output_tokens").tolist() == [2, 2]
    assert r.as_numpy("cumulative_logprob").dtype == np.float32 and text_of(r, "finish_reason") == ["length"] * 2
    only = client.infer("fake", [tensor("text_input", "tokens=2")], outputs=[triton.InferRequestedOutput("finish_reason")])
    assert text_of(only, "finish_reason") == ["stop"] and only.as_numpy("text_output") is None


def test_numbers_in_contents_and_in_parameters(doors):
    with raw(doors) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        r = raw_request("tokens=9")
        r.inputs.add(name="max_tokens", datatype="INT32", shape=[1, 1]).contents.int_contents.append(2)
        r.parameters["temperature"].double_param = 0.5
        r.parameters["seed"].uint64_param = 2**63
        r.parameters["top_p"].string_param = "0.9"
        answer = stub.ModelInfer(r, timeout=20)
        assert answer.raw_output_contents[0][4:] == b"tokens=9w0 w1 " and answer.outputs[0].shape == [1]


def test_several_at_once_and_statistics(client):
    reply = queue.Queue()
    before = client.get_inference_statistics("fake").model_stats[0].inference_stats.success.count
    for i in range(1, 9):
        client.async_infer("fake", [tensor("text_input", f"tokens={i} pace_ms=1")], callback=lambda result, error: reply.put((result, error)))
    ends = sorted(text_of(r)[0].split("w", 1)[0] + r.as_numpy("text_output")[0].decode()[-3:] for r, e in (reply.get(timeout=20) for _ in range(8)))
    assert len(ends) == 8 and all(e.endswith(f"w{i - 1} ") for i, e in zip(range(1, 9), ends))
    deadline = time.monotonic() + 20
    while client.get_inference_statistics("fake").model_stats[0].inference_stats.success.count < before + 8:
        assert time.monotonic() < deadline


def test_a_stream_answers_by_pieces(client):
    s = Stream(client)
    s.ask(*streamed("tokens=4 pace_ms=50"), request_id="a")
    pieces = s.until_end()
    assert "".join(text_of(r)[0] for r in pieces) == "w0 w1 w2 w3 " and len(pieces) > 1 and all(r.get_response().id == "a" for r in pieces)
    s.ask(*streamed("tokens=2 pace_ms=5"), enable_empty_final_response=True)
    *pieces, end = s.until_end()
    assert "".join(text_of(r)[0] for r in pieces) == "w0 w1 " and not end.get_response().outputs
    s.ask(tensor("text_input", "tokens=2"))  # not in pieces: one response
    assert [text_of(r) for r in s.until_end()] == [["tokens=2w0 w1 "]]
    client.stop_stream()


def test_several_requests_of_one_stream_go_on_beside_one_that_is_wrong(client):
    s = Stream(client)
    for i in range(6):
        s.ask(*streamed(f"tokens=15 pace_ms=2 text={i}"), request_id=str(i))
    s.ask(*streamed("tokens=1", tensor("max_tokens", 2.5, datatype="FP32")), request_id="wrong")
    s.ask(*streamed("tokens=3 refuse=quarantined"), request_id="refused")
    texts, ended, wrong = {}, set(), []
    while len(ended) + len(wrong) < 8:
        result, error = s.next()
        if error:
            wrong.append(str(error))
            continue
        answer = result.get_response()
        texts[answer.id] = texts.get(answer.id, "") + text_of(result)[0]
        if answer.parameters["triton_final_response"].bool_param:
            ended.add(answer.id)
    assert texts == {str(i): str(i) * 15 for i in range(6)} and len(wrong) == 2 and any("max_tokens" in w for w in wrong)
    client.stop_stream()


def test_who_stops_a_stream_has_its_tickets_cancelled(start):
    g = start(*KSERVE)
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:
        s = Stream(client)
        s.ask(*streamed("tokens=100000 pace_ms=5", tensor("max_tokens", 100000, datatype="INT32")))
        s.ask(*streamed("hold=1"))
        assert s.next()[1] is None
        for _ in range(2):
            g.wait_for("reserve")
        client.stop_stream(cancel_requests=True)
        assert {g.wait_for("cancel")["ticket"] for _ in range(2)} == {1, 2}
        waiting = client.async_infer("fake", [tensor("text_input", "hold=1")], callback=lambda result, error: None)
        g.wait_for("reserve")
        waiting.cancel()
        assert g.wait_for("cancel")["ticket"] == 3


def test_a_clients_deadline_ends_the_ticket(start):
    g = start(*KSERVE)
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:
        began = time.monotonic()
        with pytest.raises(InferenceServerException, match="Deadline Exceeded|DEADLINE_EXCEEDED"):
            client.infer("fake", [tensor("text_input", "hold=1")], client_timeout=0.5)
        assert time.monotonic() - began < 10
        g.wait_for("cancel")
        assert text_of(client.infer("fake", [tensor("text_input", "tokens=1")], client_timeout=20)) == ["tokens=1w0 "]


def test_what_is_not_there_is_said_by_name(doors):
    with raw(doors) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for name, message in (("SystemSharedMemoryStatus", service_pb2.SystemSharedMemoryStatusRequest()),
                              ("CudaSharedMemoryRegister", service_pb2.CudaSharedMemoryRegisterRequest()),
                              ("TraceSetting", service_pb2.TraceSettingRequest()), ("LogSettings", service_pb2.LogSettingsRequest())):
            e = refusal(getattr(stub, name), request=message)
            assert e.code() == grpc.StatusCode.UNIMPLEMENTED and name in e.details()
        for path in ("/inference.GRPCInferenceService/Nope", "/grpc.health.v1.Health/Nope", "/x"):
            e = refusal(channel.unary_unary(path), request=b"")
            assert e.code() == grpc.StatusCode.UNIMPLEMENTED, path


def test_what_is_wrong_is_an_invalid_argument(doors):
    with raw(doors) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        shared = raw_request("x")
        shared.inputs[0].parameters["shared_memory_region"].string_param = "r"
        both = raw_request("x")
        both.raw_input_contents.append(b"x")
        unknown = raw_request("x")
        unknown.parameters["nonsense"].int64_param = 1
        for message, word in ((shared, "shared_memory_region"), (both, "raw_input_contents"), (unknown, "nonsense"),
                              (service_pb2.ModelInferRequest(model_name="fake"), "text_input")):
            e = refusal(infer, request=message)
            assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and word in e.details()
            assert dict(e.trailing_metadata())["baton-error"] in ("invalid_request", "invalid_value", "unsupported_parameter")
        assert refusal(infer, request=raw_request("x", "nope")).code() == grpc.StatusCode.NOT_FOUND
        e = refusal(channel.unary_unary("/inference.GRPCInferenceService/ModelInfer"), request=b"\xff\xff\xff")
        assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and "ModelInferRequest" in e.details()
        e = refusal(infer, request=raw_request("x" * (5 << 20)))
        assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and str(4 << 20) in e.details()
        e = refusal(infer, request=raw_request("x" * 1000), compression=grpc.Compression.Gzip)
        assert e.code() == grpc.StatusCode.UNIMPLEMENTED
        assert infer(raw_request("tokens=1"), timeout=20).outputs  # and the connection goes on


def test_a_failure_on_the_way_is_the_calls_status(doors):
    with raw(doors) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        assert refusal(infer, request=raw_request("tokens=5 fail_at=2")).code() == grpc.StatusCode.INTERNAL
        assert refusal(infer, request=raw_request("refuse=context_length_exceeded")).code() == grpc.StatusCode.INVALID_ARGUMENT


# -- Load --


def test_an_overloaded_server_says_when_to_come_again(start):
    g = start(*KSERVE, "--slots", "1")
    with raw(g) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        held = stub.ModelInfer.future(raw_request("hold=1"), timeout=60)
        g.wait_for("reserve")
        e = refusal(stub.ModelInfer, request=raw_request("tokens=1"))
        trailers = dict(e.trailing_metadata())
        assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and trailers["baton-error"] == "no_job_ticket"
        assert int(trailers["retry-after"]) == 2 and trailers["grpc-retry-pushback-ms"] == "1500"
        held.cancel()
        g.wait_for("cancel")


def test_open_calls_are_bounded(start):
    g = start(*KSERVE, "--grpc-calls", "2")
    with raw(g) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        held = [stub.ModelInfer.future(raw_request("hold=1"), timeout=60) for _ in range(2)]
        time.sleep(0.5)
        e = refusal(stub.ServerLive, request=service_pb2.ServerLiveRequest())
        assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "2 open calls" in e.details()
        for h in held:
            h.cancel()
            g.wait_for("cancel")
        end = time.monotonic() + 20
        while True:
            try:
                assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20).live
                break
            except grpc.RpcError:
                assert time.monotonic() < end


def test_a_call_that_says_nothing_is_ended(start):
    g = start(*KSERVE, "--grpc-message-timeout-ms", "300")
    with raw(g) as channel:
        silent = threading.Event()
        call = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as e:
            call((silent.wait(20) and b"" for _ in range(1)), timeout=15)
        silent.set()
        assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED and "in time" in e.value.details()


def test_who_does_not_read_is_cut_and_others_go_on(start):
    g = start(*KSERVE, "--stream-buffer", "65536")
    r = raw_request("tokens=20000 bytes=2000 pace_ms=1")
    r.parameters["max_tokens"].int64_param = 20000
    r.inputs.add(name="stream", datatype="BOOL", shape=[1]).contents.bool_contents.append(True)
    with grpc.insecure_channel(g.grpc["kserve"], options=[("grpc.http2.lookahead_bytes", 16384), ("grpc.http2.bdp_probe", 0)]) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([r]), timeout=120)
        next(call)
        g.wait_for("cancel", seconds=60)  # of the ticket, while the client does not read
        with triton.InferenceServerClient(g.grpc["kserve"]) as other:
            assert text_of(other.infer("fake", [tensor("text_input", "tokens=1")])) == ["tokens=1w0 "]
        call.cancel()
    assert g.rss_kib() < 400 << 10


def test_draining_finishes_streams_and_refuses_new_ones(start):
    g = start(*KSERVE)
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:
        s = Stream(client)
        s.ask(*streamed("tokens=200 pace_ms=5", tensor("max_tokens", 200, datatype="INT32")))
        assert s.next()[1] is None
        g.order("drain")
        with pytest.raises(InferenceServerException, match="draining"):
            client.infer("fake", [tensor("text_input", "tokens=1")])
        assert client.is_server_live() and not client.is_server_ready()
        assert "".join(text_of(r)[0] for r in s.until_end()).endswith("w199 ")
        s.ask(*streamed("tokens=1"))
        assert "draining" in str(s.next()[1])
        client.stop_stream()


def test_stopping_ends_every_call_once(start):
    g = start(*KSERVE)
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:
        s = Stream(client)
        s.ask(*streamed("tokens=100000 pace_ms=5", tensor("max_tokens", 100000, datatype="INT32")))
        assert s.next()[1] is None
        g.stop()
        ends = 0
        while not ends:
            ends += s.next()[1] is not None
        time.sleep(0.2)
        assert all(error is None for _, error in list(s.replies.queue))


# -- Keys, TLS --


def test_keys(start, keys_file):
    g = start(*KSERVE, "--keys", str(keys_file))
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:
        assert client.is_server_live() and client.is_server_ready()
        for ask in (client.get_server_metadata, client.get_model_repository_index, lambda **f: client.infer("fake", [tensor("text_input", "tokens=1")], **f)):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "k"}):
                with pytest.raises(InferenceServerException) as e:
                    ask(headers=headers)
                assert e.value.status() == "StatusCode.UNAUTHENTICATED"
            ask(headers={"authorization": "Bearer k"})
        with pytest.raises(InferenceServerException) as e:
            client.load_model("fake", headers={"authorization": "Bearer k"})
        assert e.value.status() == "StatusCode.PERMISSION_DENIED"
        client.load_model("fake", headers={"authorization": "Bearer root"})
    with raw(g) as channel:  # nobody learns which methods there are
        assert refusal(channel.unary_unary("/x/y"), request=b"").code() == grpc.StatusCode.UNAUTHENTICATED
        assert refusal(channel.unary_unary("/x/y"), request=b"", metadata=bearer("k")).code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_keys_quota_counts_here_as_well(start, tmp_path):
    from conftest import key_table
    file = tmp_path / "keys.toml"
    file.write_text(key_table("few", "k", requests_per_minute=2))
    g = start(*KSERVE, "--keys", str(file))
    with raw(g) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        for _ in range(2):
            infer(raw_request("tokens=1"), timeout=20, metadata=bearer("k"))
        e = refusal(infer, request=raw_request("tokens=1"), metadata=bearer("k"))
        trailers = dict(e.trailing_metadata())
        assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and trailers["baton-error"] == "rate_limit_exceeded" and int(trailers["retry-after"]) >= 1


def test_tls(tls):  # noqa: F811
    g = tls(*KSERVE)
    trust = g.certificate.read_bytes()
    with triton.InferenceServerClient(g.grpc["kserve"], ssl=True, root_certificates=str(g.certificate)) as client:
        assert text_of(client.infer("fake", [tensor("text_input", "tokens=1")])) == ["tokens=1w0 "]
    for channel in (grpc.insecure_channel(g.grpc["kserve"]), grpc.secure_channel(g.grpc["kserve"], grpc.ssl_channel_credentials())):
        with channel:
            assert refusal(channel.unary_unary("/inference.GRPCInferenceService/ServerLive"), request=b"").code() == grpc.StatusCode.UNAVAILABLE
    with grpc.secure_channel(g.grpc["kserve"], grpc.ssl_channel_credentials(trust)) as channel:
        assert service_pb2_grpc.GRPCInferenceServiceStub(channel).ServerLive(service_pb2.ServerLiveRequest(), timeout=20).live


def test_an_address_that_is_taken_or_open_to_all_is_refused(start, doors):
    taken = start("--kserve-grpc", doors.grpc["kserve"])
    assert taken.failure == "address_in_use" and "kserve_grpc" in taken.message
    reach = start("--kserve-grpc", "0.0.0.0:0")
    assert reach.failure == "bad_config" and "kserve_grpc" in reach.message
    assert start("--kserve-grpc", "nonsense").failure == "bad_config"


def test_gateways_share_an_address(start):
    first = start("--kserve-grpc", "127.0.0.1:0", "--shares-http")
    second = start("--kserve-grpc", first.grpc["kserve"], "--shares-http")
    assert second.is_ready and second.grpc == first.grpc
    first.stop()
    with triton.InferenceServerClient(second.grpc["kserve"]) as client:
        assert text_of(client.infer("fake", [tensor("text_input", "tokens=1")])) == ["tokens=1w0 "]


def test_garbage_on_the_wire_affects_no_other_client(start):
    g = start(*KSERVE)
    host, port = g.grpc["kserve"].rsplit(":", 1)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\0\0\0\4\0\0\0\0\0"
    huge_header = b"\x00\x40\x00\x01\x04\0\0\0\1" + b"\x40\x01a\x7f\x80\x7f" + b"x" * (0x4000 - 6)
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(300), preface, preface + settings + bytes(9) * 1000, preface + b"\xff" * 4096,
                 preface + settings + huge_header * 4, preface + settings + b"\0\0\0\3\0\0\0\0\1" * 500):
        with socket.create_connection((host, int(port)), timeout=20) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(1 << 16):
                    pass
            except OSError:
                pass  # it has hung up
    with grpc.insecure_channel(g.grpc["kserve"], options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        e = refusal(stub.ServerLive, request=service_pb2.ServerLiveRequest(), metadata=[("x-large", "x" * 20000)])
        assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:  # over a connection of its own
        assert client.is_server_live() and text_of(client.infer("fake", [tensor("text_input", "tokens=1")])) == ["tokens=1w0 "]
    assert g.rss_kib() < 200 << 10


def test_metrics_name_the_api(start):
    import httpx
    g = start(*KSERVE)
    with triton.InferenceServerClient(g.grpc["kserve"]) as client:
        client.infer("fake", [tensor("text_input", "tokens=1")])
    assert 'door="grpc"' in httpx.get(g.url + "/metrics").text


def test_without_a_grpc_api_the_process_loads_no_grpc(start):
    g = start()
    maps = pathlib.Path(f"/proc/{g.process.pid}/maps").read_text()
    assert "door_grpc" not in maps and "libgrpc" not in maps and "libprotobuf" not in maps
