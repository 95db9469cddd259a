"""Traces: the spans that a collector receives for the requests of each API. A missing, slow or faulty collector costs
only spans."""
import json
import socket
import time

import httpx
import pytest
from websockets.sync.client import connect as websocket

from collector import Collector, collecting
from conftest import key_table
from raw import chat, connect, read_reply, request

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.fixture
def collector():
    with collecting() as c:
        yield c


@pytest.fixture
def traced(start, collector):
    return start("--otlp-endpoint", collector.url, "--zmq", "tcp://127.0.0.1:*")


def ask(gateway, content="tokens=3", headers=None, path="/v1/chat/completions", **fields):
    return httpx.post(gateway.url + path, json={"messages": [{"role": "user", "content": content}], **fields}, headers=headers, timeout=30)


def metric(gateway, name):
    lines = httpx.get(gateway.url + "/metrics", timeout=30).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def wait_for(holds, seconds=30):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def all_servers(gateway, collector):
    """The server spans of all requests: a gateway that stops sends its spans."""
    gateway.stop()
    assert not collector.wrong, collector.wrong
    return [s for s in collector.spans if s.is_server]


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer(traced, collector, is_stream):
    before = time.time_ns()
    assert ask(traced, "tokens=9 pace_ms=5", max_tokens=4, stream=is_stream, temperature=0.5).status_code == 200
    server = collector.servers()[0]
    assert server.name == "chat fake" and server.parent is None and server.error is None and server.events == []
    for key, value in {"gen_ai.operation.name": "chat", "gen_ai.request.model": "fake", "gen_ai.response.model": "fake", "baton.door": "http",
                       "gen_ai.request.max_tokens": 4, "gen_ai.request.temperature": 0.5, "gen_ai.usage.output_tokens": 4,
                       "gen_ai.response.finish_reasons": ["length"]}.items():
        assert server.attributes[key] == value, key
    assert server.attributes["gen_ai.usage.input_tokens"] > len("tokens=9 pace_ms=5")  # a token for each character, with this head
    assert server.resource["service.name"] == "baton" and server.resource["service.version"] == "baton-test"
    assert before <= server.begin < server.end <= time.time_ns()
    children = collector.below(server)
    assert set(children) == {"queue", "prefill", "decode"}
    queue, prefill, decode = (children[n] for n in ("queue", "prefill", "decode"))
    assert {c.trace for c in children.values()} == {server.trace}
    assert server.begin == queue.begin <= queue.end == prefill.begin <= prefill.end == decode.begin <= decode.end == server.end
    assert decode.end - decode.begin >= 3 * 5e6  # three tokens behind the first one
    wait_for(lambda: metric(traced, "baton_spans_exported_total") == 4)
    assert metric(traced, "baton_spans_dropped_total") == 0


def test_the_trace_of_the_caller(traced, collector):
    ask(traced, headers={**SAMPLED, "tracestate": "congo=t61rcWkgMzE,rojo=1"})
    server = collector.servers()[0]
    assert (server.trace, server.parent) == (TRACE, PARENT) and server.id != PARENT
    assert server.proto.trace_state == "congo=t61rcWkgMzE,rojo=1" and server.proto.flags == 0x301
    assert all(c.trace == TRACE and c.proto.flags == 0x101 for c in collector.below(server).values())


@pytest.mark.parametrize("headers, is_ours", [
    ([f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: a=1", "tracestate: b=2"], True),
    ([f"TraceParent: 00-{TRACE}-{PARENT}-01", "tracestate: a=1,a=2"], True),
    ([f"traceparent: 01-{TRACE}-{PARENT}-01-more"], True),
    ([f"traceparent: 00-{TRACE}-{PARENT}-01", f"traceparent: 00-{TRACE}-{PARENT}-01"], False),
    ([f"traceparent: 00-{TRACE.upper()}-{PARENT}-01"], False),
    ([f"traceparent: ff-{TRACE}-{PARENT}-01"], False),
    ([f"traceparent: 00-{'0' * 32}-{PARENT}-01"], False),
    (["traceparent: " + "a" * 8000], False),
    (["traceparent:"], False),
    (["tracestate: a=1"], False),
], ids=range(10))
def test_a_wrong_header_is_another_trace(traced, collector, headers, is_ours):
    with connect(traced) as s:
        s.sendall(request("POST", "/v1/chat/completions", chat("tokens=1"), headers))
        assert read_reply(s)[0].status == 200
    server = collector.servers()[0]
    assert (server.trace == TRACE, server.parent == PARENT) == (is_ours, is_ours)
    joined = len([h for h in headers if h.startswith("tracestate")]) == 2
    assert server.proto.trace_state == ("a=1,b=2" if joined else "")


def test_a_request_that_is_not_sampled_is_not_traced(start, collector):
    g = start("--otlp-endpoint", collector.url, "--trace-sampling-ratio", "0")
    assert ask(g).status_code == 200
    assert ask(g, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"}).status_code == 200
    assert ask(g, headers=SAMPLED).status_code == 200
    assert [s.trace for s in all_servers(g, collector)] == [TRACE]


def test_requests_of_a_websocket_are_in_the_trace_of_its_handshake(traced, collector):
    with websocket(traced.url.replace("http", "ws") + "/v1/stream", additional_headers=SAMPLED) as ws:
        for name in ("a", "b"):
            ws.send(json.dumps({"type": "start", "id": name, "messages": [{"role": "user", "content": "tokens=2"}]}))
        ws.send(json.dumps({"type": "start", "id": "c", "messages": []}))
        ends = 0
        while ends < 3:
            ends += json.loads(ws.recv(timeout=20))["type"] in ("done", "error")
    servers = all_servers(traced, collector)
    assert {(s.trace, s.parent, s.attributes["baton.door"]) for s in servers} == {(TRACE, PARENT, "websocket")}
    assert sorted((s.name, s.error or "") for s in servers) == [("chat fake", ""), ("chat fake", ""), ("websocket", "invalid_value")]


def test_each_request_is_one_span(start, collector, keys_file):
    keys_file.write_text(keys_file.read_text() + key_table("few", "few", requests_per_minute=1))
    g = start("--otlp-endpoint", collector.url, "--keys", str(keys_file))
    key = {"Authorization": "Bearer k"}
    reason = {
        "chat fake": ask(g, headers=key),
        "chat wrong": ask(g, headers=key, model="wrong"),
        "text_completion fake": httpx.post(g.url + "/v1/completions", json={"prompt": "tokens=2"}, headers=key),
        "POST /generate": httpx.post(g.url + "/generate", content=b"{", headers=key),
        "tokenize fake": httpx.post(g.url + "/tokenize", json={"prompt": "a"}, headers=key),
        "detokenize fake": httpx.post(g.url + "/detokenize", json={"tokens": [500]}, headers=key),
        "infer upper": httpx.post(g.url + "/v1/workers/upper", content=b"a", headers=key),
        "POST /v1/chat/completions": ask(g),
        "POST /v1/completions": httpx.post(g.url + "/v1/completions", json={"prompt": "a", "n": 99}, headers=key),
    }
    assert [r.status_code for r in reason.values()] == [200, 404, 200, 422, 200, 400, 404, 401, 400]
    for content, status in (("refuse=context_length_exceeded", 400), ("tokens=3 fail_at=2", 500)):
        assert ask(g, content, headers=key).status_code == status
    assert [ask(g, headers={"Authorization": "Bearer few"}).status_code for _ in range(2)] == [200, 429]
    assert httpx.get(g.url + "/nothing", headers=key).status_code == 404  # no door has opened it
    assert httpx.post(g.url + "/nothing", headers=key).status_code == 404
    with connect(g) as s:  # a body that is too large
        s.sendall(request("POST", "/generate_stream", b"", ["Authorization: Bearer k", f"Content-Length: {1 << 30}"]))
        assert read_reply(s)[0].status == 413
    servers = all_servers(g, collector)
    assert sorted((s.name, s.error or "") for s in servers) == sorted([
        ("chat fake", ""), ("chat wrong", "model_not_found"), ("text_completion fake", ""), ("POST /generate", "422"), ("tokenize fake", ""),
        ("detokenize fake", "invalid_value"), ("infer upper", "model_not_found"), ("POST /v1/chat/completions", "401"), ("POST /v1/completions", "400"),
        ("chat fake", "context_length_exceeded"), ("chat fake", "internal"), ("chat fake", ""), ("chat", "rate_limit_exceeded"), ("POST /generate_stream", "413")])
    assert all(s.attributes.get("error.type") == s.error for s in servers)
    assert len({s.trace for s in servers}) == len(servers)


def test_a_client_that_leaves(traced, collector):
    with connect(traced) as s:
        s.sendall(request("POST", "/v1/chat/completions", chat("tokens=100000 pace_ms=5", stream=True)))
        s.recv(4096)
        time.sleep(0.2)
    server = collector.servers()[0]
    assert server.error == "cancelled" and server.events == [("client_left", "the connection was lost")]
    assert 0 < server.attributes["gen_ai.usage.output_tokens"] < 100000 and "gen_ai.response.finish_reasons" not in server.attributes
    assert set(collector.below(server)) == {"queue", "prefill", "decode"}


def test_a_loss_that_a_stream_survives_is_an_event(traced, collector):
    with connect(traced) as s:
        s.sendall(request("POST", "/v1/completions", {"prompt": "tokens=60 pace_ms=20", "max_tokens": 60, "stream": True}, ["Connection: close"]))
        s.recv(4096)
        traced.order("head_down")
        traced.order("head_up")
        text = b"".join(iter(lambda: s.recv(65536), b""))
    assert b"[DONE]" in text and b'"error"' not in text
    server = collector.servers()[0]
    assert server.error is None and server.attributes["gen_ai.usage.output_tokens"] == 60
    assert server.events == [("head_lost", "told to be down"), ("resumed", "link")]


def test_requests_open_when_the_gateway_stops_are_traced(traced, collector):
    with connect(traced) as s:
        s.sendall(request("POST", "/v1/chat/completions", chat("tokens=100000 pace_ms=5", stream=True)))
        s.recv(4096)
        begun = time.monotonic()
        servers = all_servers(traced, collector)
        assert time.monotonic() - begun < 10
    assert [(x.name, x.error) for x in servers] == [("chat fake", "cancelled")]


def never(handler):
    """Takes it and says nothing."""
    time.sleep(60)


def garbage(handler):
    handler.wfile.write(b"\x00\xffwhat\r\n\r\n" * 100)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100_000):
        handler.wfile.write(b"x" * 4096)


def refusing(handler):
    handler.well(b"no", 400)


def overloaded(handler):
    handler.well(b"no", 503)


def redirecting(handler):
    handler.send_response(307)
    handler.send_header("Location", "http://127.0.0.1:1/")
    handler.end_headers()


@pytest.mark.parametrize("answer, is_kept", [(None, True), (overloaded, True), (never, False), (garbage, False), (endless, False), (refusing, False), (redirecting, False)])
def test_a_failing_collector_does_not_affect_requests(start, answer, is_kept):
    """None: no collector listens. Kept: spans that were not accepted may be sent again."""
    with collecting(answer) as c:
        if answer is None:
            c.stop()
        g = start("--otlp-endpoint", c.url)
        for _ in range(3):
            begun = time.monotonic()
            r = ask(g, "tokens=20 pace_ms=5", stream=True)
            assert r.status_code == 200 and r.text.count("data: ") >= 21 and time.monotonic() - begun < 5
        if not is_kept:
            wait_for(lambda: metric(g, "baton_spans_dropped_total") >= 4)
        elif answer:
            wait_for(lambda: len(c.bodies) >= 2)
            assert c.bodies[0] == c.bodies[1]
        if is_kept:
            assert metric(g, "baton_spans_dropped_total") == 0
        assert metric(g, "baton_spans_exported_total") == 0
        assert ask(g).status_code == 200
        begun = time.monotonic()
        assert g.stop() == 0 and time.monotonic() - begun < 8  # its patience is 2 s


def test_a_collector_that_comes_back_gets_what_waits(start):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    g = start("--otlp-endpoint", f"http://127.0.0.1:{port}")
    ask(g, "tokens=1")
    time.sleep(1.5)  # it is sent each second
    c = Collector(port=port)
    try:
        ask(g, "tokens=2")
        assert [s.attributes["gen_ai.usage.output_tokens"] for s in c.servers(2)] == [1, 2]
        wait_for(lambda: metric(g, "baton_spans_exported_total") == 8)
        assert metric(g, "baton_spans_dropped_total") == 0
    finally:
        c.stop()


def test_spans_that_a_collector_does_not_take_are_counted(start):
    with collecting(lambda h: h.well(b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}')) as c:
        g = start("--otlp-endpoint", c.url)
        ask(g)
        wait_for(lambda: metric(g, "baton_spans_exported_total") == 3)
        assert metric(g, "baton_spans_dropped_total") == 1


def test_many_requests_at_once_are_all_exported(traced, collector):
    with websocket(traced.url.replace("http", "ws") + "/v1/stream") as ws:
        for first in range(0, 400, 50):
            for i in range(first, first + 50):
                ws.send(json.dumps({"type": "start", "id": str(i), "messages": [{"role": "user", "content": "tokens=1"}]}))
            done = 0
            while done < 50:
                done += json.loads(ws.recv(timeout=20))["type"] == "done"
    servers = all_servers(traced, collector)
    assert len(servers) == 400 and len({s.id for s in collector.spans}) == 1600 and all(s.error is None for s in servers)


def test_without_an_endpoint_nothing_is_traced(gateway):
    assert ask(gateway, headers=SAMPLED).status_code == 200
    assert "baton_spans" not in httpx.get(gateway.url + "/metrics").text


@pytest.mark.parametrize("endpoint, reason", [("https://127.0.0.1:4318", "http:// alone"), ("127.0.0.1:4318", "http://HOST:PORT")])
def test_an_endpoint_that_is_none_is_refused(start, endpoint, reason):
    g = start("--otlp-endpoint", endpoint)
    assert not g.is_ready and g.failure == "bad_config" and reason in g.message
