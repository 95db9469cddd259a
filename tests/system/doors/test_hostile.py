"""Tables of hostile or broken requests. Each gets its error at once; the gateway's memory does not grow, and a bystander's stream
continues."""

import contextlib
import dataclasses
import json
import math
import pathlib
import socket
import struct
import sys
import threading
import time

import pytest
from websockets.sync.client import connect as websocket

from raw import chat, connect, exchange, read_reply, request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import BatonError, Client  # noqa: E402
from baton_client.codec import GenerateParams  # noqa: E402

ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
CHAT = ROUTES["chat"]
CHUNKED = ["Transfer-Encoding: chunked"]
GROWTH_KIB_MAX = 4 * 1024  # of a second and third siege over the first: caches and arenas have their size by then
SILENCE_SECONDS_MAX = 10  # a hang, not a pace


class Bystander(threading.Thread):
    """One stream that runs all the time, and the longest wait between two of its pieces."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.longest, self.is_over = 0.0, False
        self.socket = connect(gateway, seconds=SILENCE_SECONDS_MAX)
        self.socket.sendall(request("POST", CHAT, chat("tokens=1000000 pace_ms=20", stream=True)))
        self.start()

    def run(self):
        last = time.monotonic()
        with contextlib.suppress(OSError):
            while self.socket.recv(65536):
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now
        self.is_over = True


@pytest.fixture(scope="module")
def besieged():
    from conftest import Gateway
    g = Gateway("--zmq", "tcp://127.0.0.1:*", "--header-timeout-ms", "1000", "--body-timeout-ms", "1000")
    assert g.is_ready
    g.bystander = Bystander(g)
    yield g
    assert not g.bystander.is_over, "the bystander's stream has ended"
    assert g.bystander.longest < SILENCE_SECONDS_MAX
    assert g.stop() == 0


# -- Invalid HTTP, and invalid bodies --

HOSTILE = {
    "no_http": (b"\x16\x03\x01\x02\x00garbage\r\n\r\n", 400),
    "bad_version": (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    "no_host": (request("GET", "/health", host=None), 400),
    "two_hosts": (request("GET", "/health", headers=["Host: y"]), 400),
    "huge_header": (request("GET", "/health", headers=["X: " + "a" * 20000]), 431),
    "huge_target": (request("GET", "/" + "a" * 20000), 431),
    "huge_header_name": (request("GET", "/health", headers=["X" * 20000 + ": a"]), 431),
    "many_lines": (request("GET", "/health", headers=[f"X{i}: a" for i in range(200)]), 431),
    "bad_length": (request("POST", CHAT, b"x", headers=["Content-Length: -1"]), 400),
    "length_overflow": (request("POST", CHAT, b"x", headers=["Content-Length: 99999999999999999999999"]), 400),
    "two_lengths": (request("POST", CHAT, b"x", headers=["Content-Length: 1", "Content-Length: 2"]), 400),
    "length_and_chunked": (request("POST", CHAT, b"0\r\n\r\n", headers=["Content-Length: 5", *CHUNKED]), 400),
    "declared_too_large": (request("POST", CHAT, b"x", headers=["Content-Length: 99999999"]), 413),
    "sent_too_large": (request("POST", CHAT, b'{"x":"' + b"a" * (5 << 20) + b'"}'), 413),
    "sent_too_large_in_chunks": (request("POST", CHAT, (b"100000\r\n" + b"a" * (1 << 20) + b"\r\n") * 5, headers=CHUNKED), 413),
    "bad_chunk": (request("POST", CHAT, b"zz\r\n", headers=CHUNKED), 400),
    "huge_chunk": (request("POST", CHAT, b"ffffffffffffffff\r\nx", headers=CHUNKED), 413),
    "chunk_size_overflow": (request("POST", CHAT, b"10000000000000000\r\nx", headers=CHUNKED), 400),
    "chunk_size_of_many_digits": (request("POST", CHAT, b"0" * 100_000 + b"1\r\nx\r\n0\r\n\r\n", headers=CHUNKED), 431),
    "negative_chunk": (request("POST", CHAT, b"-1\r\nx\r\n0\r\n\r\n", headers=CHUNKED), 400),
    "long_chunk_extension": (request("POST", CHAT, b"1;" + b"a" * 300 + b"\r\nx\r\n0\r\n\r\n", headers=CHUNKED), 400),
    "many_tiny_chunks": (request("POST", CHAT, b"1\r\n \r\n" * 500_000 + b"0\r\n\r\n", headers=CHUNKED), 400),
    "many_chunk_extensions": (request("POST", CHAT, b"1;a=b\r\n \r\n" * 100_000 + b"0\r\n\r\n", headers=CHUNKED), 400),
    "huge_trailer": (request("POST", CHAT, b"1\r\n{\r\n0\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", headers=CHUNKED), 431),
    "space_in_name": (request("GET", "/health", headers=["X : y"]), 400),
    "not_json": (request("POST", CHAT, b"hello"), 400),
    "empty_body": (request("POST", CHAT), 400),
    "deep_arrays": (request("POST", CHAT, b"[" * 100000), 400),
    "deep_objects": (request("POST", CHAT, b'{"messages":' + b'{"a":' * 100000), 400),
    "deep_and_closed": (request("POST", CHAT, b'{"messages":' + b"[" * 100000 + b"]" * 100000 + b"}"), 400),
    "bad_utf8": (request("POST", CHAT, b'{"messages":"\xff\xfe"}'), 400),
    "two_million_ids": (request("POST", ROUTES["completions"], b'{"prompt":[' + b"1," * 2_000_000 + b"1]}"), 400),
    "many_fields": (request("POST", CHAT, {f"f{i}": i for i in range(100_000)}), 400),
    "huge_name": (request("POST", CHAT, {"f" * 1_000_000: 1}), 400),
    "multipart": (request("POST", CHAT, b"x", headers=["Content-Type: multipart/form-data"]), 415),
    "gzip": (request("POST", CHAT, b"x", headers=["Content-Encoding: gzip"]), 415),
    "foreign_origin": (request("POST", CHAT, b"{}", headers=["Origin: http://evil.example"]), 403),
}


def answer_to(g, data):
    """A refusal may arrive while we still send. The rest of our bytes is then ignored."""
    with connect(g) as s:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            s.sendall(data)
        return read_reply(s)[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused_in_openais_shape(besieged, name):
    data, status = HOSTILE[name]
    reply = answer_to(besieged, data)
    assert reply is not None and reply.status == status
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and len(error["message"]) < 1000
    assert exchange(besieged, request("GET", "/health")).status == 200


MARK = b"\xef\xbb\xbf"
SCHEMA = b'{"type":"object","properties":{"z":{"const":"}]"},"a":{}}}'
USER = b'"messages":[{"role":"user","content":"tokens=1"}]'
# Bodies by route, in which one member keeps the client's own text. Each has all required fields.
VERBATIM = {
    "chat": (CHAT, b'{%b,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":%b}}}' % (USER, SCHEMA)),
    "tools": (CHAT, b'{%b,"tools":[{"type":"function","function":{"name":"f","parameters":%b}}]}' % (USER, SCHEMA)),
    "completions": (ROUTES["completions"], b'{"prompt":"tokens=1","guided_json":%b}' % SCHEMA),
    "choice": (ROUTES["completions"], b'{"prompt":"tokens=1","guided_choice":["a"]}'),
    "responses": ("/v1/responses", b'{"input":"tokens=1","text":{"format":{"type":"json_schema","name":"n","schema":%b}}}' % SCHEMA),
    "tgi": ("/generate", b'{"inputs":"tokens=1","parameters":{"grammar":{"type":"json","value":%b}}}' % SCHEMA),
    "vllm": ("/generate", b'{"prompt":"tokens=1","guided_json":%b}' % SCHEMA),
    "triton": ("/v2/models/fake/generate", b'{"text_input":"tokens=1","parameters":{"structured_outputs":{"json":%b}}}' % SCHEMA),
    "triton_inner": ("/v2/models/fake/generate", b'{"text_input":"tokens=1","sampling_parameters":"%b{\\"structured_outputs\\":{\\"choice\\":[\\"a\\"]}}"}' % MARK),
}
# Only these end a request before its model is asked.
FATAL = [b'{"guided_choice":[]}', b'{"guided_json":{}}', b'{"tools":[{}]}', b'{"structured_outputs":{"choice":[]}}', b"{}", b"", b"[", b'"', b'{"a',
         b'{"guided_choice":["a"', b'{"guided_choice":["a\\']


@pytest.mark.parametrize("name", VERBATIM)
def test_a_mark_and_any_space_before_a_body_are_read_over(besieged, name):
    route, body = VERBATIM[name]
    for before in (b"", MARK, b" \t\r\n", MARK + b" \t\r\n", MARK + b"\n"):
        reply = exchange(besieged, request("POST", route, before + body + b"\r\n"))
        assert reply is not None and reply.status == 200, (before, reply and reply.body)
    for before in (MARK + MARK, b"\x0b", b"\xc2\xa0", b"\xff\xfe"):
        reply = exchange(besieged, request("POST", route, before + body))
        assert reply is not None and 400 <= reply.status < 500, (before, reply and reply.body)


def test_no_small_body_behind_a_mark_ends_the_gateway(besieged):
    routes = {route for route, _ in VERBATIM.values()} | {"/", "/generate_stream", "/tokenize", "/detokenize", "/v1/embeddings",
                                                         "/v2/models/fake/infer", "/v2/models/fake/generate_stream"}
    for route in sorted(routes):
        for body in FATAL:
            for before in (MARK, MARK + b" ", MARK + MARK, b"\xfe\xff"):
                reply = exchange(besieged, request("POST", route, before + body))
                assert reply is not None and 400 <= reply.status < 500, (route, before + body, reply and reply.body)
    with websocket(besieged.url.replace("http", "ws") + "/v1/stream") as ws:
        for body in (*FATAL, b'{"type":"start","id":"a","guided_choice":[]}'):
            ws.send((MARK + body).decode())
            assert json.loads(ws.recv(timeout=20))["type"] == "error"
            ws.send('{"type":"cancel","id":"nobody"}')  # three bad ones in a row would end the socket
            assert json.loads(ws.recv(timeout=20))["error"]["code"] == "not_found"
        ws.send((MARK + b'{"type":"start","id":"a","prompt":"tokens=1","guided_choice":["a"]}').decode())
        answer = [json.loads(ws.recv(timeout=20))["type"]]
        while answer[-1] not in ("done", "error"):
            answer.append(json.loads(ws.recv(timeout=20))["type"])
        assert answer[-1] == "done"
    assert exchange(besieged, request("GET", "/health")).status == 200


EARLY = {
    "no_host": ([], None, b"", 400),
    "huge_header": (["X: " + "a" * 20000], "x", b"", 431),
    "declared_too_large": (["Content-Length: 99999999"], "x", b"x", 413),
    "sent_too_large_in_chunks": (CHUNKED, "x", (b"100000\r\n" + b"a" * (1 << 20) + b"\r\n") * 5, 413),
    "bad_chunk": (CHUNKED, "x", b"zz\r\n", 400),
}
SHAPES = {"/v2/models/fake/infer": {"error"}, "/v2/models/fake/generate": {"error"}, "/v2/nowhere": {"error"}, "/generate": {"error", "error_type"},
          "/generate_stream": {"error", "error_type"}, "/": {"error", "error_type"}}


@pytest.mark.parametrize("name", EARLY)
@pytest.mark.parametrize("path", SHAPES)
def test_what_is_refused_early_has_the_shape_of_its_path(besieged, path, name):
    headers, host, body, status = EARLY[name]
    reply = answer_to(besieged, request("POST", path, body, headers=headers, host=host))
    assert reply is not None and reply.status in (status, 404 if path == "/v2/nowhere" else status)  # no body is read for them
    received = reply.json()
    assert isinstance(received["error"], str) and set(received) <= SHAPES[path]


def test_a_late_body_is_refused_in_the_words_of_its_path(start):
    g = start("--body-timeout-ms", "200", "--header-timeout-ms", "200")
    for path, head in (("/v2/models/fake/infer", b"\r\n"), ("/generate", b"\r\n"), ("/v2/models/fake/infer", b"")):
        with connect(g) as s:
            s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" % path.encode() + head)
            reply = read_reply(s)[0]
        assert reply.status == 408 and isinstance(reply.json()["error"], str)


# -- Slowly, byte by byte --

DRIPS = {
    "header": request("GET", "/health", headers=["X: " + "a" * 10000]),
    "body": request("POST", CHAT, b" " * 10000),
    "chunks": request("POST", CHAT, b"1\r\n \r\n" * 10000, headers=CHUNKED),
}


@pytest.mark.parametrize("part", DRIPS)
def test_a_client_that_drips_bytes_times_out_however_many_there_are(besieged, part):
    data = DRIPS[part]
    begin = 4 if part == "header" else data.index(b"\r\n\r\n") + 4
    drips = [connect(besieged) for _ in range(50)]
    for s in drips:
        s.sendall(data[:begin])
    waiting = dict(enumerate(drips))
    end = time.monotonic() + 15
    at = begin
    while waiting and time.monotonic() < end:
        for i, s in list(waiting.items()):
            with contextlib.suppress(OSError):
                s.send(data[at:at + 1])
            s.settimeout(0.001)
            with contextlib.suppress(TimeoutError):
                s.recv(1, socket.MSG_PEEK)
                s.settimeout(20)
                assert read_reply(s)[0].status == 408
                waiting.pop(i).close()
        at += 1
    assert not waiting


# -- Absurd values in every field that the code reads --

ABSURD = ["1e308", "-1e308", "-1", "0", "-0", "-0.0", "1e-44", "1e-300", "5e-324", "1e39", "0.5", "NaN", "Infinity", "-Infinity", "9223372036854775808", "18446744073709551616", "1e400",
          '"string"', "null", "true", "[]", "{}", "[1e308]", '{"a":1e308}']
NO_JSON = {"NaN", "Infinity", "-Infinity", "1e400"}  # the parser refuses them: it knows of no field yet

# Values that a field accepts. A field that is not listed accepts only null.
TEXT, SWITCH = {'"string"'}, {"true"}
NOUGHT = {"0", "-0"}
TINY = {"1e-44", "1e-300", "5e-324"}
NEAR_NOUGHT = NOUGHT | TINY | {"-0.0"}
TAKEN = {
    "temperature": NEAR_NOUGHT | {"0.5"},
    "top_p": {"0.5"},
    "min_p": NEAR_NOUGHT | {"0.5"},
    "typical_p": {"0.5"},
    "repetition_penalty": {"0.5"},
    "presence_penalty": NEAR_NOUGHT | {"-1", "0.5"},
    "frequency_penalty": NEAR_NOUGHT | {"-1", "0.5"},
    "top_k": NOUGHT | {"-1"},
    "num_speculative_tokens": NOUGHT,
    "seed": NOUGHT | {"-1", "9223372036854775808"},
    "max_tokens": {"-1"},
    "max_completion_tokens": {"-1"},
    "truncate_prompt_tokens": {"-1"},
    "logit_bias": {"{}"},
    "min_tokens": NOUGHT,
    "top_logprobs": NOUGHT,
    "priority": NOUGHT,
    "stop": TEXT | {"[]"},
    "stop_token_ids": {"[]"},
    "stream": SWITCH,
    "ignore_eos": SWITCH,
    "include_stop_str_in_output": SWITCH,
    "return_token_ids": SWITCH,
    "return_tokens_as_token_ids": SWITCH,
    "add_generation_prompt": SWITCH,
    "add_special_tokens": SWITCH,
    "continue_final_message": SWITCH,
    "chat_template_kwargs": {"{}", '{"a":1e308}'},
    "documents": {"[]"},
    "include_reasoning": SWITCH,
    "thinking_token_budget": {"-1"},
    "user": TEXT,
    "safety_identifier": TEXT,
    "session_id": TEXT,
    "prompt_cache_key": TEXT,
    "cache_salt": TEXT,
    "request_id": TEXT,
    "prompt": TEXT,
    "tools": {"[]"},
    "parallel_tool_calls": SWITCH,
    "echo": SWITCH,
    "guided_json": {"true", "{}"},
    "guided_regex": TEXT,
}
NEEDED = {"messages", "prompt"}  # null is not leaving them out


def is_taken(api, field, value):
    if field == "logprobs":
        return value in ({"true", "null"} if api == "chat" else NOUGHT | {"null"})
    return value in TAKEN.get(field, ()) or (value == "null" and field not in NEEDED)


def fields_of(g):
    return [(api, field) for api, fields in g.fields.items() for field in fields]


def body_with(api, field, value):
    """JSON by hand, because Python cannot express the values."""
    body = {"messages": '[{"role":"user","content":"tokens=1"}]'} if api == "chat" else {"prompt": '"tokens=1"'}
    body[field] = value
    return ("{" + ",".join(f'"{k}":{v}' for k, v in body.items()) + "}").encode()


def names(field, error):
    return error["param"] is not None and (error["param"] == field or error["param"].startswith((field + ".", field + "[")))


def judge(api, field, value, status, error):
    """-> the fault of the answer, or None"""
    answer = f"{api} {field}={value}: {status} {error}"
    if is_taken(api, field, value):
        return [] if status == 200 else [answer]
    is_named = (value in NO_JSON and error and error["code"] == "invalid_request") or (error and names(field, error))
    return [] if 400 <= status < 500 and is_named else [answer]


def siege_http(g):
    wrong = []
    s, rest = connect(g), b""
    for api, field in fields_of(g):
        for value in ABSURD:
            s.sendall(request("POST", ROUTES[api], body_with(api, field, value)))
            if (field, value) == ("stream", "true"):  # taken: the answer are events
                while not rest.endswith(b"0\r\n\r\n"):
                    rest += s.recv(65536)
                wrong += [] if rest.startswith(b"HTTP/1.1 200") else [rest]
                rest = b""
                continue
            reply, rest = read_reply(s, rest)
            wrong += judge(api, field, value, reply.status, reply.json().get("error"))
    s.close()
    return wrong


def siege_websocket(g):
    wrong = []
    with websocket(g.url.replace("http", "ws") + "/v1/stream") as ws:
        for api, field in [*fields_of(g), ("chat", "window")]:
            for value in ABSURD:
                if (field, value) in {("stream_options", "{}"), ("resumable", "true"), ("echo", "true"), ("return_token_ids", "true"),
                                      ("return_tokens_as_token_ids", "true")}:
                    continue  # two need a stream, which this is; an echo and ids are not for sockets
                start = b'{"type":"start","id":"a",' + body_with(api, field, value)[1:]
                ws.send(start.decode())
                error, status = None, 200
                while True:
                    m = json.loads(ws.recv(timeout=20))
                    if m["type"] == "error":
                        error, status = m["error"], 400
                    if m["type"] in ("error", "done"):
                        break
                wrong += judge(api, field, value, status, error)
                if value in NO_JSON:  # three in a row would end the socket
                    ws.send('{"type":"cancel","id":"nobody"}')
                    assert json.loads(ws.recv(timeout=20))["error"]["code"] == "not_found"
        for kind, field in [("ack", "index"), ("ack", "choice"), ("ack", "window"), ("resume", "from"), ("resume", "window")]:
            for value in set(ABSURD) - NO_JSON - NOUGHT - {"null"}:
                others = {"ack": {"index": "0"}, "resume": {"resume": '"1-0"', "from": "0"}}[kind]
                text = ",".join(f'"{k}":{v}' for k, v in {**others, field: value}.items())
                ws.send('{"type":"%s","id":"a",%s}' % (kind, text))
                m = json.loads(ws.recv(timeout=20))
                if m["type"] != "error" or not names(field, m["error"]):
                    wrong.append(f"{kind} {field}={value}: {m}")
    return wrong


NUMBERS = [math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-44, -1, 0, 0.5, 2**31 - 1, 2**31, 2**63, 2**64]
NO_NUMBERS = {"stop", "stop_token_ids", "ignore_eos", "include_stop_str_in_output", "cache_salt", "request_id", "continue_final_message"}
TAKEN_TYPED = {  # for a typed message; a field that is not listed accepts none of them
    "temperature": {0, 0.5, 1e-44},
    "top_p": {0.5},
    "min_p": {0, 0.5, 1e-44},
    "typical_p": {0.5},
    "watermark_gamma": {0, 0.5, 1e-44},
    "watermark_delta": {0, 0.5, 1e-44},
    "repetition_penalty": {0.5},
    "presence_penalty": {-1, 0, 0.5, 1e-44},
    "frequency_penalty": {-1, 0, 0.5, 1e-44},
    "logit_bias": {-1, 0, 0.5, 1e-44},
    "top_k": {0},
    "seed": {0, 2**31 - 1, 2**31, 2**63},
    "logprobs": {-1, 0},
    "min_tokens": {0},
    "num_speculative_tokens": {-1, 0},
    "priority": {0},
}
ON_THE_WIRE = {"n": "choices", "logit_bias": "bias", "max_tokens": "tokens_max", "min_tokens": "tokens_min"}  # if it is refused before it is read


def siege_zmq(g):
    """Through the SDK, whose fields are those of the message. A value that does not fit a field's type is not sent."""
    wrong = []
    with Client(g.zmq, timeout=20, reconnect_timeout=0) as client:
        for field in (f.name for f in dataclasses.fields(GenerateParams) if f.name not in NO_NUMBERS):
            for value in NUMBERS:
                is_taken, answer = value in TAKEN_TYPED.get(field, ()), "taken"
                try:
                    client.generate("tokens=1", **{field: {1: value} if field == "logit_bias" else value})
                    is_right = is_taken
                except (ValueError, TypeError, OverflowError, struct.error) as e:
                    is_right, answer = not is_taken, repr(e)
                except BatonError as e:
                    is_named = e.param == field or field in e.message or ON_THE_WIRE.get(field, field) in e.message
                    is_right, answer = not is_taken and e.name in ("invalid_value", "invalid_request") and is_named, repr(e)
                if not is_right:
                    wrong.append(f"{field}={value}: {answer}")
        if client.generate("tokens=1").text != "w0 ":
            wrong.append("the client is of no use any more")
    return wrong


SIEGES = {"http": siege_http, "websocket": siege_websocket, "zmq": siege_zmq}


def test_the_fields_are_those_of_the_code(besieged):
    assert {"temperature", "max_tokens", "seed", "logit_bias", "n"} <= set(besieged.fields["chat"]) & set(besieged.fields["completions"])
    assert "max_completion_tokens" in besieged.fields["chat"]


@pytest.mark.parametrize("door", SIEGES)
def test_absurd_values_are_refused_by_field(besieged, door):
    assert SIEGES[door](besieged) == []


def test_no_siege_leaves_anything_behind(besieged):
    sizes = []
    for _ in range(3):
        for siege in SIEGES.values():
            assert siege(besieged) == []
        for data, _ in HOSTILE.values():
            answer_to(besieged, data)
        sizes.append(besieged.rss_kib())
    assert sizes[-1] - sizes[0] < GROWTH_KIB_MAX, sizes
    load = exchange(besieged, request("GET", "/load")).json()
    assert load["server_load"] == 1  # the bystander
