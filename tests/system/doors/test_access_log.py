"""A line of the access log for each request, and the id by which client and log know it."""
import json
import re
import time

import grpc
import httpx
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from websockets.sync.client import connect as websocket

from raw import chat, connect, exchange, read_all, read_reply, request

CHAT = "/v1/chat/completions"
MADE = re.compile(r"[0-9a-f]{32}$")


@pytest.fixture
def logged(start, tmp_path):
    """A gateway with a log, and a function that reads it once it has so many lines."""
    def go(*flags):
        file = tmp_path / "access.log"
        g = start("--access-log", str(file), *flags)

        def lines(count, seconds=20):
            end = time.monotonic() + seconds
            while len(found := file.read_text().splitlines()) < count and time.monotonic() < end:
                time.sleep(0.01)
            assert len(found) == count, found
            return [dict(field.split("=", 1) for field in line.split(" ")[2:]) | {"time": line.split(" ")[0], "level": line.split(" ")[1]}
                    for line in found]
        return g, lines
    return go


def test_a_line_has_client_request_and_outcome(logged, keys_file):
    g, lines = logged("--keys", str(keys_file))
    key = {"Authorization": "Bearer k"}
    r = httpx.post(g.url + CHAT + "?key=secret", json=chat("tokens=3"), headers=key | {"X-Request-ID": "mine-1"})
    assert r.headers["x-request-id"] == "mine-1"
    httpx.post(g.url + CHAT, json=chat("tokens=3"))
    httpx.get(g.url + "/nope", headers=key)
    whole, locked, missing = lines(3)
    assert whole == {**whole, "level": "info", "door": "http", "method": "POST", "path": CHAT, "status": "200", "key": "user", "request_id": "mine-1",
                     "model": "fake", "output_tokens": "3", "prompt_tokens": str(r.json()["usage"]["prompt_tokens"])}
    assert whole["client"].startswith("127.0.0.1:") and int(whole["bytes"]) > len(r.content) and 0 < float(whole["seconds"]) < 60 and int(whole["ticket"]) > 0
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}$", whole["time"])
    assert locked["status"] == "401" and "key" not in locked and "model" not in locked and MADE.match(locked["request_id"])
    assert missing["status"] == "404" and missing["path"] == "/nope" and missing["key"] == "user"


def test_neither_prompts_nor_keys_are_written(logged, keys_file, tmp_path):
    g, lines = logged("--keys", str(keys_file))
    httpx.post(g.url + "/v1/completions?api_key=SECRET", json={"prompt": "SECRET tokens=1", "model": "SECRET"}, headers={"Authorization": "Bearer SECRET"})
    httpx.post(g.url + "/v1/completions", json={"prompt": "SECRET tokens=1"}, headers={"Authorization": "Bearer k"})
    lines(2)
    assert "SECRET" not in (tmp_path / "access.log").read_text()


def test_polled_paths_are_logged_only_on_failure(logged):
    g, lines = logged()
    for path in ("/health", "/ping", "/metrics", "/cluster", "/load", "/page/main.js", "/v2/health/live"):
        assert httpx.get(g.url + path).status_code == 200
    g.order("phase loading")
    assert httpx.get(g.url + "/health").status_code == 503
    only, = lines(1)
    assert only["path"] == "/health" and only["status"] == "503"


def test_streams_and_clients_that_leave(logged):
    g, lines = logged()
    with httpx.stream("POST", g.url + CHAT, json=chat("tokens=4", stream=True, n=2), headers={"X-Request-ID": "s"}) as r:
        assert r.headers["x-request-id"] == "s"
        text = r.read()
    for stream in (False, True):
        with connect(g) as s:
            s.sendall(request("POST", CHAT, chat("hold=1 tokens=5", stream=stream)))
            g.wait_for("reserve")
        g.wait_for("cancel")
    with connect(g) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{")
    whole, left, cut, half = lines(4)
    assert whole["status"] == "200" and whole["output_tokens"] == "8" and int(whole["bytes"]) > len(text)
    assert [x["status"] for x in (left, cut, half)] == ["499"] * 3 and half["path"] == "/v1/completions" and left["model"] == "fake"


def test_every_request_of_a_connection_has_a_line(logged):
    g, lines = logged()
    with connect(g) as s:
        s.sendall(request("GET", "/version") + request("POST", CHAT, chat("tokens=1"), headers=["x-request-id: b"]) + request("GET", "http://h/v1/models?x"))
        rest, ids = b"", []
        for _ in range(3):
            reply, rest = read_reply(s, rest)
            ids.append(reply.headers["x-request-id"])
    with connect(g) as s:
        s.sendall(b"nonsense\r\n\r\n")
        assert b"\r\nX-Request-ID: " in read_all(s)
    connect(g).close()  # a connection without a request has no line
    *received, bad = lines(4)
    assert [t["request_id"] for t in received] == ids and ids[1] == "b" and [t["path"] for t in received] == ["/version", CHAT, "/v1/models"]
    assert len({t["client"] for t in received}) == 1 and "model" not in received[2] and bad["status"] == "400"


@pytest.mark.parametrize("given_id", ["", "a b", "x" * 129, "\u00e4".encode().decode("latin-1"), '"a"'])
def test_an_id_that_cannot_be_written_is_replaced(gateway, given_id):
    reply = exchange(gateway, request("GET", "/health", headers=[f"X-Request-ID: {given_id}"]))
    assert MADE.match(reply.headers["x-request-id"])
    two = exchange(gateway, request("GET", "/health", headers=["X-Request-ID: a", "X-Request-ID: b"]))
    assert MADE.match(two.headers["x-request-id"])


def test_all_apis_return_the_id(start):
    g = start("--torchserve-inference", "127.0.0.1:0", "--torchserve-management", "127.0.0.1:0", "--torchserve-metrics", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    mine = {"X-Request-ID": "mine"}
    at = g.torchserve
    for url in (g.url + "/", g.url + "/page/main.js", g.url + "/v2/models/fake", g.url + "/nope", g.admin + "/load", at["inference"] + "/ping",
                at["management"] + "/models", at["metrics"] + "/metrics", at["inference"] + "/nope"):
        assert httpx.get(url, headers=mine).headers.get_list("x-request-id") == ["mine"], url
    for path, body in (("/generate", {"inputs": "tokens=1"}), ("/generate_stream", {"inputs": "tokens=1"}), ("/v2/models/fake/generate_stream", {"text_input": "tokens=1"}),
                       ("/v1/responses", {"input": "tokens=1"}), ("/v1/responses", {"input": "tokens=1", "stream": True}), ("/generate", {"inputs": 1})):
        assert httpx.post(g.url + path, json=body, headers=mine).headers.get_list("x-request-id") == ["mine"], path
    assert httpx.post(at["inference"] + "/predictions/fake", json={"prompt": "tokens=1"}, headers=mine).headers["x-request-id"] == "mine"


def test_requests_of_a_websocket_have_lines_of_their_own(logged):
    g, lines = logged()
    with websocket(g.url.replace("http", "ws") + "/v1/stream", additional_headers={"X-Request-ID": "ws"}) as ws:
        assert ws.response.headers["X-Request-ID"] == "ws"
        ws.send(json.dumps({"type": "start", "id": "a", "prompt": "tokens=2"}))
        while json.loads(ws.recv(timeout=20))["type"] != "done":
            pass
        ws.send(json.dumps({"type": "start", "id": "b", "prompt": "hold=1"}))
        g.wait_for("reserve")
        g.wait_for("reserve")
    hand, a, b = lines(3)
    assert hand["status"] == "101" and hand["door"] == "http" and {x["request_id"] for x in (hand, a, b)} == {"ws"}
    assert a["door"] == "websocket" and (a["id"], a["status"], a["output_tokens"], a["model"]) == ("a", "200", "2", "fake") and a["client"] == hand["client"]
    assert (b["id"], b["status"]) == ("b", "499")


def test_calls_of_grpc_have_lines_and_ids(logged, keys_file):
    g, lines = logged("--kserve-grpc", "127.0.0.1:0", "--keys", str(keys_file))
    r = service_pb2.ModelInferRequest(model_name="fake")
    r.inputs.add(name="text_input", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"tokens=2")
    with grpc.insecure_channel(g.grpc["kserve"]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call = stub.ModelInfer.with_call(r, timeout=20, metadata=[("authorization", "Bearer k"), ("x-request-id", "g-1")])[1]
        assert dict(call.initial_metadata())["x-request-id"] == "g-1"
        with pytest.raises(grpc.RpcError) as e:
            stub.ModelInfer(r, timeout=20)
        made = dict(e.value.initial_metadata())["x-request-id"]
        assert MADE.match(made)
        stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20)  # a poll
    well, locked = lines(2)
    assert well == {**well, "door": "grpc", "path": "/inference.GRPCInferenceService/ModelInfer", "status": "0", "key": "user", "request_id": "g-1", "model": "fake",
                    "output_tokens": "2"}
    assert well["client"].startswith("127.0.0.1:") and int(well["bytes"]) > 0
    assert locked["status"] == "16" and locked["request_id"] == made


def test_a_log_that_cannot_be_opened_is_no_failure(start, tmp_path):
    (tmp_path / "file").write_text("")
    g = start("--access-log", str(tmp_path / "file" / "access.log"))
    assert httpx.get(g.url + "/version").status_code == 200
