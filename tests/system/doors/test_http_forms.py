"""Unusual requests that RFC 9110 and 9112 want a server to accept, and requests that it must refuse."""
import pytest

from raw import chat, connect, exchange, read_all, read_reply, request

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("target, status", [
    ("http://localhost/health", 200),
    ("HTTP://LOCALHOST:8000/health", 200),
    ("https://localhost/health", 200),
    ("http://[::1]:1/health?x=1", 200),
    ("http://localhost/nope", 404),
    ("http://localhost/v1/models/nope", 404),
    ("http://localhost", 200),  # the page
    ("http://localhost?x=1", 200),
    ("http:///health", 400),
    ("http://", 400),
    ("http://user@localhost/health", 400),
    ("ftp://localhost/health", 400),
    ("localhost/health", 400),
    ("health", 400),
    ("*", 400),
])
def test_a_target_in_absolute_form_is_read(gateway, target, status):  # RFC 9112, 3.2.2
    reply = exchange(gateway, request("GET", target))
    assert reply.status == status
    if status == 400:
        assert reply.json()["error"]["code"] == "invalid_request"


def test_a_call_in_absolute_form_is_answered(gateway):
    reply = exchange(gateway, request("POST", "http://localhost" + CHAT, chat("tokens=2")))
    assert reply.status == 200 and reply.json()["usage"]["completion_tokens"] == 2
    reply = exchange(gateway, request("GET", "http://localhost/v1/models/fake"))
    assert reply.status == 200 and reply.json()["id"] == "fake"
    long = exchange(gateway, request("POST", "http://localhost" + CHAT, headers=["X: " + "x" * 20000]))
    assert long.status == 431


def test_the_name_of_an_absolute_form_stands_for_host(start):
    g = start("--admin", "127.0.0.1:0")
    at = type(g).__new__(type(g))
    at.host, at.port = "127.0.0.1", int(g.admin.rsplit(":", 1)[1])
    assert exchange(at, request("GET", "/load", host="evil.test")).status == 403
    assert exchange(at, request("GET", "http://evil.test/load", host="localhost")).status == 403
    assert exchange(at, request("GET", "http://localhost/load", host="evil.test")).status == 200
    page = ["Origin: http://evil.test"]
    assert exchange(g, request("POST", CHAT, chat(), headers=page)).status == 403
    assert exchange(g, request("POST", "http://localhost" + CHAT, chat(), headers=page, host="evil.test")).status == 403


def test_torchserve_reads_absolute_form_too(start):
    g = start("--torchserve-inference", "127.0.0.1:0")
    at = type(g).__new__(type(g))
    at.host, at.port = "127.0.0.1", int(g.torchserve["inference"].rsplit(":", 1)[1])
    assert exchange(at, request("GET", "http://localhost/ping")).status == 200
    assert exchange(at, request("OPTIONS", "*")).status == 204


@pytest.mark.parametrize("lines", [1, 2, 8])
def test_empty_lines_before_a_request_are_skipped(gateway, lines):  # RFC 9112, 2.2
    with connect(gateway) as s:
        rest = b""
        for _ in range(3):
            s.sendall(b"\r\n" * lines + request("POST", CHAT, chat("tokens=1")))
            reply, rest = read_reply(s, rest)
            assert reply.status == 200
    with connect(gateway) as s:  # in pieces
        for piece in (b"\r", b"\n" + b"\r\n" * (lines - 1), request("GET", "/health")):
            s.sendall(piece)
        assert read_reply(s)[0].status == 200


def test_an_empty_line_behind_a_body_is_no_request(start):
    g = start("--header-timeout-ms", "300", "--idle-timeout-ms", "60000")
    with connect(g) as s:
        s.sendall(request("POST", CHAT, chat("tokens=1")) + b"\r\n")
        reply, rest = read_reply(s)
        assert reply.status == 200 and rest == b""
        s.settimeout(1)
        with pytest.raises(TimeoutError):  # it waits for the next request, for as long as a client may be idle
            s.recv(1)
        s.settimeout(20)
        s.sendall(request("GET", "/health"))
        assert read_reply(s)[0].status == 200


def test_nothing_but_empty_lines_ends_the_connection(start):
    g = start("--header-timeout-ms", "300")
    reply = exchange(g, b"\r\n" * 9 + request("GET", "/health"))
    assert reply.status == 400
    with connect(g) as s:
        s.sendall(b"\r\n\r")
        assert read_all(s) == b""


def test_options_of_the_whole_server(start, keys_file):  # RFC 9110, 9.3.7
    g = start("--keys", str(keys_file))
    for target in ("*", "http://localhost"):
        reply = exchange(g, request("OPTIONS", target))
        assert reply.status == 204 and "POST" in reply.headers["allow"]
    assert exchange(g, request("OPTIONS", "*", b"{}")).status == 204


@pytest.mark.parametrize("headers", [
    ["Transfer-Encoding: chunked"], ["transfer-encoding:CHUNKED"], ["Transfer-Encoding: Chunked \t"], ["Transfer-Encoding: , chunked"],
])
def test_a_coding_is_read_in_any_case(gateway, headers):
    body = b"3;a=b\r\n{\"m\r\n"
    rest = b'odel":"fake","messages":[{"role":"user","content":"tokens=1"}]}'
    body += b"%X\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (len(rest), rest)
    reply = exchange(gateway, request("POST", CHAT, headers=headers) + body)
    assert reply.status == 200


@pytest.mark.parametrize("coding", ["gzip", "identity", "chunked, gzip"])
def test_a_body_without_an_end_is_refused(gateway, coding):  # RFC 9112, 6.3
    with connect(gateway) as s:
        s.sendall(request("POST", CHAT, headers=[f"Transfer-Encoding: {coding}"]) + request("GET", "/version"))
        out = read_all(s)
    assert out.startswith(b"HTTP/1.1 400 ") and out.count(b"HTTP/1.1") == 1  # what follows is no second request


def test_lists_and_white_space_in_fields(gateway):
    reply = exchange(gateway, request("GET", "/health", headers=["Connection: x, Keep-Alive ,,", "X-Empty:", "X:   \t y \t"]))
    assert reply.status == 200 and "connection" not in reply.headers
    assert exchange(gateway, request("GET", "/health", headers=["Connection: x , CLOSE"])).headers["connection"] == "close"
    kept = exchange(gateway, request("GET", "/health", headers=["connection: keep-alive"], version="1.0"))
    assert kept.status == 200 and kept.headers["connection"] == "keep-alive"
    bare = exchange(gateway, request("GET", "/health", host="", version="1.0"))
    assert bare.status == 200 and bare.headers["connection"] == "close"


def test_expect_continue_is_answered_for_a_request_with_a_body(gateway):  # RFC 9110, 10.1.1
    with connect(gateway) as s:
        whole = request("POST", CHAT, chat("tokens=1"), headers=["expect: 100-Continue"])
        head, body = whole.split(b"\r\n\r\n", 1)
        s.sendall(head + b"\r\n\r\n")
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(body)
        reply, rest = read_reply(s)
        assert reply.status == 200
        s.sendall(request("GET", "/health", headers=["Expect: 100-continue"]))
        assert read_reply(s, rest)[0].status == 200
