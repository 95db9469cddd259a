"""/v1/stream with the websockets package."""

import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


@pytest.fixture
def ws(gateway):
    with socket_of(gateway) as s:
        yield s


def socket_of(gateway, **options):
    return connect(gateway.url.replace("http", "ws") + "/v1/stream", **options)


def start(ws, id, content, **fields):
    ws.send(json.dumps({"type": "start", "id": id,
                        "messages": [{"role": "user", "content": content}], **fields}))


def read(ws, seconds=20):
    return json.loads(ws.recv(timeout=seconds))


def read_until(ws, kind, id=None):
    seen = []
    while True:
        m = read(ws)
        seen.append(m)
        if m["type"] == kind and (id is None or m["id"] == id):
            return seen


def test_one_request(ws):
    start(ws, "a", "tokens=5 pace_ms=2")
    seen = read_until(ws, "done")
    assert seen[0]["type"] == "granted" and seen[0]["ticket"] > 0
    tokens = seen[1:-1]
    assert all(m["type"] == "tokens" and m["id"] == "a" for m in tokens)
    assert "".join(m["text"] for m in tokens) == "w0 w1 w2 w3 w4 "
    assert sum(m["count"] for m in tokens) == 5
    assert tokens[-1]["index"] == 5
    assert seen[-1]["finish_reason"] == "stop"
    assert seen[-1]["usage"]["completion_tokens"] == 5


def test_several_requests_share_a_socket(ws):
    for i in range(8):
        start(ws, f"r{i}", f"tokens={i + 3} pace_ms=3")
    texts, done = {}, {}
    while len(done) < 8:
        m = read(ws)
        if m["type"] == "tokens":
            texts[m["id"]] = texts.get(m["id"], "") + m["text"]
        elif m["type"] == "done":
            done[m["id"]] = m
    for i in range(8):
        assert texts[f"r{i}"] == "".join(f"w{k} " for k in range(i + 3))


def test_cancel(start_gateway_ws):
    g, ws = start_gateway_ws
    start(ws, "a", "tokens=100000 pace_ms=5")
    ticket = read_until(ws, "granted")[-1]["ticket"]
    ws.send(json.dumps({"type": "cancel", "id": "a"}))
    last = read_until(ws, "error")[-1]
    assert last["id"] == "a" and last["error"]["code"] == "cancelled"
    assert g.cancelled(ticket)["why"] == 2
    start(ws, "a", "tokens=1")  # the id is free again
    assert read_until(ws, "done")[-1]["id"] == "a"


@pytest.fixture
def start_gateway_ws(start):
    g = start("--stream-buffer", "20000")
    with socket_of(g) as s:
        yield g, s


def test_a_socket_that_goes_away_cancels_its_requests(start_gateway_ws):
    g, ws = start_gateway_ws
    start(ws, "a", "tokens=100000 pace_ms=5")
    start(ws, "b", "hold=1")
    tickets = {g.wait_for("reserve")["ticket"] for _ in range(2)}
    ws.close()
    assert {g.wait_for("cancel")["ticket"] for _ in range(2)} == tickets


def test_flow_control_holds_tokens_back_until_they_are_acked(ws):
    start(ws, "a", "tokens=10", window=4)
    got = 0
    while got < 4:
        m = read(ws)
        got += m.get("count", 0)
    assert got == 4
    with pytest.raises(TimeoutError):
        read(ws, seconds=0.3)
    ws.send(json.dumps({"type": "ack", "id": "a", "index": 2}))
    assert read(ws)["index"] in (5, 6)
    ws.send(json.dumps({"type": "ack", "id": "a", "index": 4, "window": 100}))
    seen = read_until(ws, "done")
    assert seen[-2]["index"] == 10


def test_a_window_that_is_never_acked_ends_as_a_slow_reader(start_gateway_ws):
    g, ws = start_gateway_ws
    start(ws, "a", "tokens=100000 bytes=1000", window=2)
    start(ws, "b", "tokens=3 pace_ms=50")
    seen = read_until(ws, "done", "b")
    errors = [m for m in seen if m["type"] == "error"]
    assert [m["error"]["code"] for m in errors] == ["slow_reader"] and errors[0]["id"] == "a"


@pytest.mark.parametrize("text, id, param", [
    ('{"type":"start","id":"a","messages":[]}', "a", "messages"),
    ('{"type":"start","id":"a","prompt":"x","temperature":9}', "a", "temperature"),
    ('{"type":"start","id":"a","prompt":"x","tempo":9}', "a", "tempo"),
    ('{"type":"start","id":"a","prompt":"x","priority":1}', "a", "priority"),
    ('{"type":"start"}', None, "id"),
    ('{"type":"what","id":"a"}', "a", "type"),
    ('{"type":"cancel","id":"nobody"}', "nobody", None),
    ('{"type":"start","id":"a","prompt":"x","model":"other"}', "a", "model"),
    ('{"type":"start","id":"a","prompt":"refuse=context_length_exceeded"}', "a", None),
])
def test_a_bad_message_gets_an_error_and_the_socket_stays_open(ws, text, id, param):
    ws.send(text)
    m = read_until(ws, "error")[-1]
    assert m["id"] == id and m["error"]["param"] == param
    start(ws, "z", "tokens=1")
    read_until(ws, "done")


def test_an_id_in_use_is_refused(ws):
    start(ws, "a", "hold=1")
    start(ws, "a", "tokens=1")
    m = read_until(ws, "error")[-1]
    assert m["error"]["code"] == "conflict" and m["error"]["param"] == "id"


def test_no_json_again_and_again_is_a_disconnect(ws):
    ws.send("hello")
    assert read(ws)["error"]["code"] == "invalid_request"
    ws.send(b"\x00\x01")
    ws.send("[]")
    with pytest.raises(ConnectionClosed) as e:
        while True:
            read(ws)
    assert e.value.rcvd.code == 1008


def test_a_message_over_the_limit_closes_the_socket(ws):
    with pytest.raises(ConnectionClosed):
        ws.send("x" * (5 << 20))
        while True:
            read(ws)


def test_the_number_of_requests_per_socket_is_bounded(ws):
    for i in range(65):
        start(ws, f"r{i}", "hold=1")
    m = read_until(ws, "error")[-1]
    assert m["error"]["code"] == "overloaded" and m["id"] == "r64"


def test_a_failed_stream_and_several_choices(ws):
    start(ws, "a", "tokens=5 fail_at=3")
    last = read_until(ws, "error")[-1]
    assert last["error"]["code"] == "internal"
    start(ws, "b", "tokens=2", n=2)
    seen = read_until(ws, "done") + read_until(ws, "done")
    ends = [m for m in seen if m["type"] == "done"]
    assert sorted(m["choice"] for m in ends) == [0, 1]
    assert [m["last"] for m in ends] == [False, True]


def test_the_upgrade_needs_the_key_and_the_same_origin(start, keys_file):
    g = start("--keys", str(keys_file))
    with pytest.raises(InvalidStatus) as e:
        socket_of(g)
    assert e.value.response.status_code == 401
    key = {"Authorization": "Bearer k"}
    with pytest.raises(InvalidStatus) as e:
        socket_of(g, additional_headers=key, origin="http://evil.example")
    assert e.value.response.status_code == 403
    with socket_of(g, additional_headers=key) as ws:
        ws.send(json.dumps({"type": "start", "id": "a", "prompt": "tokens=1"}))
        read_until(ws, "done")


def test_ping_is_answered(ws):
    assert ws.ping().wait(30)
