"""HTTP on the wire: keep-alive, limits, clients that leave or do not read. test_hostile.py has hostile requests."""

import json
import re
import socket
import threading
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from raw import chat, connect, exchange, read_all, read_reply, request

CHAT = "/v1/chat/completions"


def test_routes_answer(gateway):
    for path in ["/health", "/ping", "/version", "/load", "/cluster", "/v1/models"]:
        r = httpx.get(gateway.url + path)
        assert r.status_code == 200 and r.headers["content-type"] == "application/json", path
        r.json()
    assert "<html" in httpx.get(gateway.url + "/").text
    assert "baton_ready 1" in httpx.get(gateway.url + "/metrics").text


def test_the_page_and_its_files(gateway):
    page = httpx.get(gateway.url + "/")
    names = ["/" + name for name in re.findall(r'(?:href|src)="([^"#/][^"]*)"', page.text)]
    assert "/page/main.js" in names and "/page/page.css" in names
    for name in ["/", *names]:
        r = httpx.get(gateway.url + name)
        assert r.status_code == 200 and "'self'" in r.headers["content-security-policy"] and "unsafe" not in r.headers["content-security-policy"], name
        tag = r.headers["etag"]
        with httpx.Client() as c:  # the connection goes on behind a reply without a body
            for _ in range(2):
                again = c.get(gateway.url + name, headers={"If-None-Match": tag})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert httpx.get(gateway.url + "/page/nothing.js").json()["error"]["code"] == "not_found"
    assert httpx.post(gateway.url + "/page/main.js").status_code == 405


@pytest.mark.parametrize("method, path, status, code", [
    ("GET", "/nope", 404, "not_found"),
    ("GET", CHAT, 405, "method_not_allowed"),
    ("POST", "/health", 405, "method_not_allowed"),
    ("DELETE", "/v1/models", 405, "method_not_allowed"),
    ("GET", "/v1/models/x", 404, "model_not_found"),
    ("GET", "/v1/stream", 400, "invalid_request"),
])
def test_wrong_routes_have_openai_errors(gateway, method, path, status, code):
    r = httpx.request(method, gateway.url + path)
    assert r.status_code == status
    assert r.json()["error"]["code"] == code
    assert (status == 405) == ("allow" in r.headers)


def test_head_and_options(gateway):
    r = httpx.head(gateway.url + "/health")
    assert r.status_code == 200 and r.content == b"" and int(r.headers["content-length"]) > 0
    r = httpx.options(gateway.url + CHAT)
    assert r.status_code == 204 and "POST" in r.headers["allow"]


def test_keep_alive_serves_many_requests_on_one_connection(gateway):
    with connect(gateway) as s:
        rest = b""
        for _ in range(5):
            s.sendall(request("POST", CHAT, chat()))
            reply, rest = read_reply(s, rest)
            assert reply.status == 200
        s.sendall(request("GET", "/health", headers=["Connection: close"]))
        reply, _ = read_reply(s, rest)
        assert reply.headers["connection"] == "close"
        assert s.recv(10) == b""


def test_pipelined_requests_are_answered_in_order(gateway):
    with connect(gateway) as s:
        s.sendall(b"".join(request("POST", CHAT, chat(f"tokens={n} pace_ms=5")) for n in (3, 1, 2)))
        rest = b""
        for n in (3, 1, 2):
            reply, rest = read_reply(s, rest)
            assert reply.json()["usage"]["completion_tokens"] == n


def test_pipelined_behind_a_stream(gateway):
    with connect(gateway) as s:
        s.sendall(request("POST", CHAT, chat("tokens=20 pace_ms=5", stream=True)) +
                  request("GET", "/version", headers=["Connection: close"]))
        out = read_all(s)
        assert out.count(b"data: [DONE]") == 1
        assert out.endswith(b'{"version":"baton-test"}')


def test_http_1_0_stream_ends_with_the_connection(gateway):
    with connect(gateway) as s:
        s.sendall(request("POST", CHAT, chat(stream=True), version="1.0"))
        out = read_all(s)
        head, body = out.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.0 200") and b"chunked" not in head
        assert body.startswith(b"id: ") and body.endswith(b"data: [DONE]\n\n")


def test_stream_is_framed_in_chunks_and_keeps_the_connection(gateway):
    with connect(gateway) as s:
        for _ in range(3):
            s.sendall(request("POST", CHAT, chat(stream=True)))
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += s.recv(65536)
            head, body = data.split(b"\r\n\r\n", 1)
            assert b"Content-Type: text/event-stream" in head
            text = b""
            while body:
                size, body = body.split(b"\r\n", 1)
                text += body[:int(size, 16)]
                body = body[int(size, 16) + 2:]
            assert text.endswith(b"data: [DONE]\n\n")


def test_expect_100_continue(gateway):
    body = json.dumps(chat()).encode()
    with connect(gateway) as s:
        s.sendall(request("POST", CHAT, headers=["Expect: 100-continue",
                                                 f"Content-Length: {len(body)}"]))
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(body)
        reply, _ = read_reply(s)
        assert reply.status == 200


def test_a_silent_connection_is_closed(start):
    g = start("--header-timeout-ms", "300", "--idle-timeout-ms", "300")
    with connect(g) as s:  # says nothing
        assert s.recv(10) == b""
    with connect(g) as s:  # idle after a request
        s.sendall(request("GET", "/version"))
        reply, _ = read_reply(s)
        assert reply.status == 200
        assert s.recv(10) == b""


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_is_cancelled_at_once(start, stream):
    g = start()
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("tokens=100000 pace_ms=20", stream=stream)))
        ticket = g.wait_for("reserve")["ticket"]
        if stream:
            s.recv(10)
    event = g.cancelled(ticket)
    assert event["why"] == 1


def test_a_client_that_hangs_up_while_it_waits_for_its_first_token(start):
    g = start()
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("hold=1", stream=True)))
        ticket = g.wait_for("reserve")["ticket"]
    assert g.cancelled(ticket)["why"] == 1


def test_a_slow_reader_is_cut_and_costs_only_itself(start):
    g = start("--stream-buffer", "65536", "--send-buffer", "16384", "--write-timeout-ms", "60000")
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    s.settimeout(20)
    s.connect((g.host, g.port))
    s.sendall(request("POST", CHAT, chat("tokens=100000 pace_ms=1 bytes=2000", stream=True)))
    ticket = g.wait_for("reserve")["ticket"]
    other = httpx.post(g.url + CHAT, json=chat("tokens=50 pace_ms=1"), timeout=30)
    assert other.json()["usage"]["completion_tokens"] == 50
    assert g.cancelled(ticket, seconds=40)["why"] == 3
    time.sleep(2)  # longer than the grace of the last write
    out = read_all(s)
    assert len(out) < 2 << 20
    s.close()
    assert exchange(g, request("GET", "/health")).status == 200


def test_a_reader_that_wakes_up_in_time_sees_the_terminal_error(start):
    g = start("--stream-buffer", "4096", "--send-buffer", "16384")
    with connect(g) as s:
        # One event more than the buffer holds, between two rounds of the writer.
        # The connection ends with the answer, whichever side ends it.
        s.sendall(request("POST", CHAT, chat("tokens=20000 bytes=3000", stream=True), headers=["Connection: close"]))
        out = read_all(s)
    if b'"slow_reader"' in out:
        # Cut before the first event it is a plain HTTP error, after it the stream's last event.
        assert out.count(b"data: [DONE]") == (1 if out.startswith(b"HTTP/1.1 200") else 0)
        assert out.count(b'"error"') == 1
    else:
        assert out.count(b"finish_reason\":\"stop\"") == 1


def test_many_streams_at_once(gateway):
    results = []

    def one(n):
        with httpx.stream("POST", gateway.url + CHAT, timeout=60,
                          json=chat(f"tokens={n} pace_ms=2", stream=True)) as r:
            text = "".join(r.iter_text())
        results.append(text.count('"content":"w') == n and text.endswith("data: [DONE]\n\n"))

    threads = [threading.Thread(target=one, args=(20 + i % 7,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 100


def test_connections_beyond_the_limit_get_503(start):
    g = start("--connections", "3")
    held = [connect(g) for _ in range(3)]
    for s in held:
        s.sendall(request("GET", "/version"))
        assert read_reply(s)[0].status == 200
    with connect(g) as s:
        reply, _ = read_reply(s)
        assert reply.status == 503 and reply.headers["retry-after"] == "1"
    held.pop().close()
    end = time.monotonic() + 30
    status = 503
    while status == 503 and time.monotonic() < end:
        status = exchange(g, request("GET", "/version")).status
    assert status == 200
    for s in held:
        s.close()


def test_requests_beyond_slots_and_limits_get_the_reason(start):
    g = start("--slots", "1", "--requests", "2")
    with connect(g) as a, connect(g) as b:
        a.sendall(request("POST", CHAT, chat("hold=1")))
        g.wait_for("reserve")
        b.sendall(request("POST", CHAT, chat(stream=True)))
        reply, _ = read_reply(b)
        assert reply.status == 503 and reply.json()["error"]["code"] == "no_job_ticket"
        assert reply.headers["retry-after"] == "2"


def test_drain_refuses_new_and_finishes_old(start):
    g = start()
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("tokens=30 pace_ms=20")))
        g.wait_for("reserve")
        g.order("drain")
        r = httpx.post(g.url + CHAT, json=chat())
        assert r.status_code == 503 and r.json()["error"]["code"] == "draining"
        health = httpx.get(g.url + "/health")
        assert health.status_code == 503 and health.json()["phase"] == "draining"
        reply, _ = read_reply(s)
        assert reply.json()["usage"]["completion_tokens"] == 30


def test_health_tells_the_phase_and_a_lost_head_ends_streams(start):
    g = start()
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("tokens=1000 pace_ms=20", stream=True)))
        assert s.recv(20)
        g.order("head_down")
        out = read_all_chunks(s)
        assert out.count(b'"code":"pipeline_lost"') == 1
        assert out.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    health = httpx.get(g.url + "/health")
    assert health.status_code == 503 and health.json()["phase"] == "recovering"
    assert httpx.post(g.url + CHAT, json=chat()).json()["error"]["code"] == "not_ready"
    g.order("head_up")
    assert httpx.get(g.url + "/health").status_code == 200
    g.order("phase loading")
    health = httpx.get(g.url + "/health").json()
    assert health["phase"] == "loading" and health["reason"] == "told so"


def read_all_chunks(s):
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        chunk = s.recv(65536)
        if not chunk:
            break
        data += chunk
    return data


def test_an_unanswered_question_ends(start):
    g = start("--answer-timeout-ms", "200")
    # hold=1 is after the grant: that stream lives; nothing of it times out here.
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("hold=1")))
        s.settimeout(1)
        with pytest.raises(TimeoutError):
            s.recv(1)


def test_an_address_in_use_is_named(start):
    g = start()
    other = start("--http", f"127.0.0.1:{g.port}")
    assert other.failure == "address_in_use"
    assert start("--http", "nonsense").failure == "bad_config"
    assert start("--zmq", "tcp://0.0.0.0:5555").failure == "bad_config"


def test_metrics_count_what_happened(start):
    g = start()
    httpx.post(g.url + CHAT, json=chat("tokens=4"))
    httpx.post(g.url + CHAT, json=chat(temperature=9))
    httpx.get(g.url + "/nope")
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("hold=1")))
        g.wait_for("reserve")
        g.wait_for("reserve")
    g.wait_for("cancel")
    text = httpx.get(g.url + "/metrics").text
    assert f'baton_http_requests_total{{code="499",route="{CHAT}"}} 1' in text
    assert 'baton_clients_gone_total{door="http"} 1' in text
    assert 'vllm:generation_tokens_total{engine="0",model_name="fake"} 4' in text
    assert f'baton_http_requests_total{{code="200",route="{CHAT}"}} 1' in text
    assert f'baton_http_requests_total{{code="400",route="{CHAT}"}} 1' in text
    assert 'baton_http_requests_total{code="404",route="other"} 1' in text
    assert "baton_requests_open 0" in text
    assert "tgi_request_count 2" in text
    assert 'tgi_request_generated_tokens_sum{engine="0",model_name="fake"} 4' in text


def samples_at(g):
    return {(s.name, *sorted(s.labels.items())): s.value for f in text_string_to_metric_families(httpx.get(g.url + "/metrics").text) for s in f.samples}


def test_metrics_tell_the_phases_of_a_request(start):
    g = start()
    httpx.post(g.url + CHAT, json=chat("tokens=3 pace_ms=20", n=2, max_tokens=8))
    received = samples_at(g)
    of = lambda name: received[f"vllm:{name}", ("engine", "0"), ("model_name", "fake")]  # noqa: E731
    assert of("request_queue_time_seconds_sum") >= 2e-6  # what the head says that it waited there
    assert of("request_decode_time_seconds_sum") >= 2 * 0.02
    phases = sum(of(f"request_{phase}_time_seconds_sum") for phase in ("queue", "prefill", "decode"))
    assert abs(of("request_prefill_time_seconds_sum") + of("request_decode_time_seconds_sum") - of("request_inference_time_seconds_sum")) < 1e-6
    assert phases <= of("e2e_request_latency_seconds_sum")
    assert of("request_params_n_sum") == 2 and of("request_params_max_tokens_sum") == 8 and of("request_max_num_generation_tokens_sum") == 3
    assert of("request_generation_tokens_count") == 2 and of("request_generation_tokens_sum") == 6 and of("request_prompt_tokens_count") == 1
    tgi = lambda name: received[f"tgi_request_{name}_sum", ("engine", "0"), ("model_name", "fake")]  # noqa: E731
    assert abs(tgi("validation_duration") + tgi("queue_duration") + tgi("inference_duration") - tgi("duration")) < 1e-6


def test_metrics_count_requests_as_an_instrumentator(start):
    g = start()
    httpx.post(g.url + CHAT, json=chat("tokens=1"))
    httpx.get(g.url + "/nope")
    httpx.request("BREW", g.url + CHAT)
    httpx.get(g.url + "/health")
    received = samples_at(g)
    counted = {key[1:]: value for key, value in received.items() if key[0] == "http_requests_total"}
    row = lambda handler, method, status: (("handler", handler), ("method", method), ("status", status))  # noqa: E731
    assert counted == {row(CHAT, "POST", "2xx"): 1, row("none", "GET", "4xx"): 1, row(CHAT, "other", "4xx"): 1}
    assert received["http_request_duration_seconds_count", ("handler", CHAT), ("method", "POST")] == 1


def is_cut(connection):
    """Closed or reset, depending on the bytes that were in flight."""
    try:
        return connection.recv(10) == b""
    except ConnectionResetError:
        return True


def test_stopping_cuts_open_connections(start):
    g = start()
    s = connect(g)
    s.sendall(request("POST", CHAT, chat("hold=1", stream=True)))
    g.wait_for("reserve")
    idle = [connect(g) for _ in range(64)]  # some are accepted while the gateway stops
    assert g.stop() == 0
    assert is_cut(s)
    assert all(is_cut(c) for c in idle)
