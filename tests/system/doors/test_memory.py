"""Memory runs out in the middle of one request. It alone fails, with an error or a closed connection, and all others are served."""
import json
import pathlib
import sys

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as websocket

from raw import chat, connect, read_reply, request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import BatonError, Client  # noqa: E402

CHAT = "/v1/chat/completions"
# Each limit stops another step of a request: the read buffer, the parser, the copies after it.
LIMITS = [48, 96, 160, 320, 640, 1280]
TEXT = "tokens=1 " + "x" * (1 << 20)


@pytest.fixture(scope="module")
def doors():
    from conftest import Gateway
    g = Gateway("--zmq", "tcp://127.0.0.1:*", "--kserve-grpc", "127.0.0.1:0")
    assert g.is_ready, g.message
    yield g
    assert g.stop() == 0


@pytest.fixture(params=LIMITS, ids=lambda kib: f"{kib}KiB")
def limited(doors, request):
    doors.order(f"allocations {request.param * 1024}")
    yield doors
    doors.order("allocations 0")


def start(name, content):
    return {"type": "start", "id": name, "messages": [{"role": "user", "content": content}]}


def small_request_passes(g):
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("tokens=2")))
        return read_reply(s)[0].status == 200


@pytest.mark.parametrize("is_chunked", [False, True])
def test_http(limited, is_chunked):
    large = request("POST", CHAT, chat(TEXT))
    if is_chunked:
        body = json.dumps(chat(TEXT)).encode()
        large = request("POST", CHAT, headers=["Transfer-Encoding: chunked"]) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with connect(limited) as bystander, connect(limited) as s:
        bystander.sendall(request("POST", CHAT, chat("tokens=20 pace_ms=10", stream=True)))
        try:
            s.sendall(large)
            reply, _ = read_reply(s)
        except (ConnectionResetError, BrokenPipeError):
            reply = None
        assert reply is None or (reply.status == 500 and reply.json()["error"]["code"] == "internal")
        assert small_request_passes(limited)
        data = b""
        while b"[DONE]" not in data:
            piece = bystander.recv(65536)
            assert piece, "the bystander's stream broke"
            data += piece
    limited.order("allocations 0")
    with connect(limited) as s:  # the same request, where there is memory
        s.sendall(large)
        assert read_reply(s)[0].status == 200


def test_websocket(limited):
    url = limited.url.replace("http", "ws") + "/v1/stream"
    with websocket(url) as bystander, websocket(url) as ws:
        bystander.send(json.dumps(start("b", "tokens=20 pace_ms=10")))
        ws.send(json.dumps(start("a", TEXT)))
        try:
            while (message := json.loads(ws.recv(timeout=20)))["type"] not in ("error", "done"):
                pass
        except ConnectionClosed as closed:
            assert closed.rcvd is None or closed.rcvd.code in (1009, 1011)
        else:
            assert message["type"] == "error" and message["error"]["code"] == "internal"
        while json.loads(bystander.recv(timeout=20))["type"] != "done":
            pass


@pytest.mark.parametrize("limited", [48, 320, 640], indirect=True)  # it copies a message once
def test_zmq(limited):
    with Client(limited.zmq) as bystander, Client(limited.zmq) as client:
        pieces = bystander.stream("tokens=20 pace_ms=10")
        next(iter(pieces))
        with pytest.raises(BatonError) as e:
            client.generate(TEXT)
        assert e.value.name == "internal"
        assert client.generate("tokens=2").text == "w0 w1 "
        assert [c.finish_reason for c in pieces][-1] == "stop"
    limited.order("allocations 0")
    with Client(limited.zmq) as client:
        assert client.generate(TEXT).text == "w0 "


def grpc_request(text):
    r = service_pb2.ModelInferRequest(model_name="fake")
    r.inputs.add(name="text_input", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text.encode())
    return r


def test_grpc(limited):
    with grpc.insecure_channel(limited.grpc["kserve"]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as e:
            stub.ModelInfer(grpc_request(TEXT), timeout=20)
        assert e.value.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED), e.value
        assert stub.ModelInfer(grpc_request("tokens=2"), timeout=20).model_name == "fake"
        limited.order("allocations 0")
        assert stub.ModelInfer(grpc_request(TEXT), timeout=20).model_name == "fake"
