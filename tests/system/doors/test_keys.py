"""API keys: one check for all APIs. The table of routes defines the needed key; the kernel's list shows the listening sockets."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import httpx
import openai
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as websocket

from conftest import key_table
from raw import chat, connect, exchange, read_reply, request
from raw_zmq import Raw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import BatonError, Client  # noqa: E402
from baton_client import codec  # noqa: E402
from baton_client.wire.MessageKind import MessageKind  # noqa: E402

USER, ADMIN = {"Authorization": "Bearer k"}, {"Authorization": "Bearer root"}
CHAT, TGI = "/v1/chat/completions", {"inputs": "tokens=1"}
TEXT_INPUT = {"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["tokens=1"]}
KSERVE = {"infer": {"inputs": [TEXT_INPUT]}, "generate": {"text_input": "tokens=1"}, "generate_stream": {"text_input": "tokens=1"}}


def keyed(start, keys_file, *flags):
    g = start("--keys", str(keys_file), "--zmq", "tcp://127.0.0.1:*", "--admin", "127.0.0.1:0", *flags)
    assert g.is_ready
    return g


def ask(url, row, headers=None, method=None):
    """The status of a route, by its own method."""
    path = row["path"].replace("{id}", "fake").replace("{model}", "fake").replace("{version}", "1") + {"/v1/models/": "fake", "/page/": "main.js"}.get(row["path"], "")
    if row["method"] == "SOCKET" and method is None:
        try:
            with websocket(url.replace("http", "ws") + path, additional_headers=headers or {}):
                return 101
        except InvalidStatus as e:
            return e.response.status_code
    bodies = {"/tokenize": {"prompt": "a"}, "/detokenize": {"tokens": [97]}, "/v1/completions": {"prompt": "tokens=1"}, CHAT: chat("tokens=1"), "/v1/responses": {"input": "tokens=1"},
              "/v1/embeddings": {"input": "tokens=1"}, "/": TGI, "/generate": TGI, "/generate_stream": TGI,
              "/v1/messages": chat("tokens=1", max_tokens=1), "/v1/messages/count_tokens": chat("a"),
              "/api/chat": chat("tokens=1", model="fake"), "/api/generate": {"model": "fake", "prompt": "tokens=1"},
              "/api/embed": {"model": "fake", "input": "tokens=1"}, "/api/embeddings": {"model": "fake", "prompt": "tokens=1"},
              "/api/show": {"model": "fake"}, "/api/pull": {"model": "fake"},
              "/models/load": {"model": "fake"}, "/models/unload": {"model": "fake"}}
    bodies |= {f"/v2/models/fake{v}/{verb}": body for v in ("", "/versions/1") for verb, body in KSERVE.items()}
    verb = method or (row["method"] if row["method"] != "SOCKET" else "GET")
    return httpx.request(verb, url + path, headers=headers, json=bodies.get(path) if verb == "POST" else None).status_code


def test_every_route_of_the_table_by_every_key(start, keys_file):
    g = keyed(start, keys_file)
    assert {r["path"] for r in g.routes if r["access"] == "open"} == {"/health", "/ping", "/v2/health/live", "/v2/health/ready"}
    assert {r["path"] for r in g.routes if r["access"] == "page"} == {"/", "/page/"}
    for row in g.routes:
        is_unknown = "{id}" in row["path"] or row["path"] == "/v1/workers/"  # there is no such answer, or model, here
        is_of_files = row["path"] in ("/api/push", "/api/create", "/api/copy", "/api/delete")  # for models, which no call changes
        is_of_loads = row["path"].startswith("/models/")  # for models on demand; there are none here
        served = (101 if row["method"] == "SOCKET" else 404 if is_unknown else 403 if is_of_files else 409 if is_of_loads
                  else 503 if row["path"].endswith("/unload") else 200)
        is_open, is_admins = row["access"] in ("open", "page"), row["access"] == "admin"
        answer = [ask(g.url, row, h) for h in (None, {"Authorization": "Bearer K"}, USER, ADMIN)]
        locked = served if is_open else 401
        assert answer == [locked, locked, 403 if is_admins else served, served], row
        if not is_open and row["path"] != "/":  # where the page is
            assert [ask(g.url, row, method=m) for m in ("HEAD", "OPTIONS", "DELETE", "PUT", "TRACE")] == [401] * 5, row
        assert ask(g.admin, row) == (served if is_open or is_admins else 401), row
        verb = "GET" if row["method"] == "SOCKET" else row["method"]
        refused = httpx.request(verb, g.url + row["path"])
        challenges = refused.headers.get_list("www-authenticate")
        assert challenges == (["Bearer"] if refused.status_code == 401 else []), row
        assert ask(g.admin, row, USER) == served, row
    for nothing in ("/no", "/v1/models/", "/metrics/", "//metrics", "/%6detrics", "/metrics%00", "/Health", "/health/../metrics", "/pause"):
        reply = exchange(g, request("GET", nothing))
        assert reply.status == 401 and reply.json()["error"]["code"] == "unauthorized", nothing
        assert reply.headers["www-authenticate"] == "Bearer"


def test_a_browsers_socket_brings_its_key_among_its_protocols(start, keys_file):
    g = keyed(start, keys_file)
    url = g.url.replace("http", "ws") + "/v1/stream"
    with websocket(url, subprotocols=["baton", "bearer.k"]) as ws:
        assert ws.subprotocol == "baton"  # the key is not said back
        ws.send(json.dumps({"type": "start", "id": "a", "prompt": "tokens=2"}))
        while (m := json.loads(ws.recv(timeout=20)))["type"] != "done":
            assert m["type"] in ("granted", "tokens")
    for offered in (["baton"], ["baton", "bearer.K"], ["baton", "bearer.%6"]):
        with pytest.raises(InvalidStatus) as e:
            websocket(url, subprotocols=offered)
        assert e.value.response.status_code == 401
    assert exchange(g, request("GET", "/v1/models", headers=["Sec-WebSocket-Protocol: baton, bearer.k"])).status == 401


def listening(pid):
    """(host, port) of all TCP sockets on which the process listens, from the kernel's list."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                host, port = words[1].split(":")
                found.add((host, int(port, 16)))
    return found


def test_every_socket_is_a_door_and_no_door_answers_strangers(start, keys_file):
    g = keyed(start, keys_file)
    loopback = "0100007F"
    doors = {int(url.rsplit(":", 1)[1]) for url in (g.url, g.admin, g.zmq)}
    assert listening(g.process.pid) == {(loopback, port) for port in doors}
    assert exchange(g, request("POST", CHAT, chat())).status == 401
    with pytest.raises(BatonError) as e:
        Client(g.zmq)
    assert e.value.name == "unauthorized"
    stranger = Raw(g.zmq)  # who does not even greet
    for kind, body in ((MessageKind.list_models, codec.list_models(1)), (MessageKind.heartbeat, codec.heartbeat(1))):
        stranger.send(kind, body)
    assert stranger.next_message(seconds=1) is None
    metrics = httpx.get(g.admin + "/metrics").text
    assert 'baton_messages_dropped_total{kind="zmq_stranger"} 2' in metrics


def test_the_operators_address_accepts_localhost_alone(start, keys_file):
    g = keyed(start, keys_file)
    port = int(g.admin.rsplit(":", 1)[1])
    for host, status in (("localhost", 200), (f"127.0.0.1:{port}", 200), ("evil.example", 403)):
        assert httpx.get(g.admin + "/cluster", headers={"Host": host}).status_code == status


def test_where_strangers_may_come_without_keys(start, keys_file):
    g = start("--http", "0.0.0.0:0")
    assert (g.is_ready, g.failure) == (False, "bad_config")
    for word in ("keygen --api", "api_keys", "allow_unauthenticated"):
        assert word in g.message
    g = start("--admin", "0.0.0.0:0")
    assert not g.is_ready and "loopback" in g.message
    for flags in (["--keys", str(keys_file)], ["--allow-unauthenticated"]):
        assert start("--http", "0.0.0.0:0", *flags).is_ready


def test_the_zmq_api_and_the_sdk(start, keys_file):
    g = keyed(start, keys_file)
    with Client(g.zmq, api_key="k") as user, Client(g.zmq, api_key="root") as admin:
        assert user.generate("tokens=2").text == admin.generate("tokens=2").text == "w0 w1 "
    for wrong in ("", "K", "k" * 2000):
        with pytest.raises((BatonError, ValueError)):
            Client(g.zmq, api_key=wrong, connect_timeout=2)


# -- Quotas --

def over_http(g, n=1):
    c = openai.OpenAI(base_url=g.url + "/v1", api_key="k", max_retries=0, timeout=30)
    for _ in range(n):
        c.completions.create(model="fake", prompt="tokens=5")


def refused_over_http(g):
    with pytest.raises(openai.RateLimitError) as e:
        over_http(g)
    assert e.value.status_code == 429
    error = e.value.response.json()["error"]
    assert int(e.value.response.headers["retry-after"]) == error["retry_after"] >= 1
    return error


def refused_over_websocket(g):
    with websocket(g.url.replace("http", "ws") + "/v1/stream", additional_headers=USER) as ws:
        ws.send(json.dumps({"type": "start", "id": "a", "prompt": "tokens=5"}))
        m = json.loads(ws.recv(timeout=20))
        assert m["type"] == "error" and m["error"]["retry_after"] >= 1
        return m["error"]


def refused_over_zmq(g):
    with Client(g.zmq, api_key="k") as c, pytest.raises(BatonError) as e:
        c.generate("tokens=5")
    assert e.value.retryable and e.value.retry_after > 0
    return {"code": e.value.name, "param": e.value.param, "message": e.value.message}


@pytest.mark.parametrize("quota", [{"requests_per_minute": 2}, {"tokens_per_minute": 14}, {"concurrent_requests": 1}])
def test_a_quota_holds_for_all_doors_of_a_key_and_for_no_other(start, keys_file, quota):
    keys_file.write_text(key_table("user", "k", **quota) + key_table("other", "o"))
    g = keyed(start, keys_file)
    (name, limit), = quota.items()
    if name == "concurrent_requests":
        holding = connect(g)
        holding.sendall(request("POST", CHAT, chat("tokens=100000 pace_ms=20", stream=True), headers=["Authorization: Bearer k"]))
        assert b"200" in holding.recv(4096)
    else:
        over_http(g, 2)  # of five tokens and a prompt each
    for refused in (refused_over_http, refused_over_websocket, refused_over_zmq):
        error = refused(g)
        assert (error["code"], error["param"]) == ("rate_limit_exceeded", name)
        assert "'user'" in error["message"] and str(limit) in error["message"]
    with Client(g.zmq, api_key="o") as other:
        assert other.generate("tokens=5").finish_reason
    metrics = httpx.get(g.admin + "/metrics").text
    assert f'baton_key_refused_total{{key="user",quota="{name}"}} 3' in metrics
    assert 'baton_key_tokens_total{key="other"}' in metrics
    if name == "concurrent_requests":
        holding.close()
        deadline = time.monotonic() + 20
        while True:  # until the hang-up has been heard
            try:
                return over_http(g, 3)
            except openai.RateLimitError:
                assert time.monotonic() < deadline


def test_one_request_at_a_time_needs_no_pause_between_them(start, keys_file):
    keys_file.write_text(key_table("user", "k", concurrent_requests=1))
    g = keyed(start, keys_file)
    over_http(g, 100)  # the slot is free before the client has read the end of the answer
    with httpx.Client(base_url=g.url, headers=USER) as c:
        for _ in range(50):
            assert c.post(CHAT, json=chat("tokens=3", stream=True)).text.endswith("data: [DONE]\n\n")


def test_names_of_requests_are_the_callers_own(start, keys_file):
    keys_file.write_text(key_table("user", "k") + key_table("other", "o"))
    g = keyed(start, keys_file)
    for key in "ko":
        c = openai.OpenAI(base_url=g.url + "/v1", api_key=key, max_retries=0)
        c.completions.create(model="fake", prompt="tokens=1", extra_body={"request_id": "job", "cache_salt": "s"})
    events = [g.wait_for("reserve", "admit") for _ in range(4)]
    assert [e["request_id"] for e in events if e["event"] == "reserve"] == ["user job", "other job"]
    assert [e["cache_salt"] for e in events if e["event"] == "admit"] == ["user s", "other s"]


# -- Exchanging keys --

def test_keys_are_exchanged_while_streams_run(start, keys_file):
    g = keyed(start, keys_file)
    lines, done = [], threading.Event()

    def follow():
        with httpx.stream("POST", g.url + CHAT, headers=USER, json=chat("tokens=60 pace_ms=20", stream=True), timeout=30) as r:
            lines.extend(r.iter_lines())
        done.set()

    with (websocket(g.url.replace("http", "ws") + "/v1/stream", additional_headers=USER) as ws, Client(g.zmq, api_key="k") as sdk):
        stream = sdk.stream("tokens=60 pace_ms=20")
        threading.Thread(target=follow, daemon=True).start()
        assert [g.wait_for("reserve") for _ in range(2)] and next(stream).text
        keys_file.write_text(key_table("user", "k", "new"))
        assert g.reload() == ""
        assert ask(g.url, {"path": "/v1/models", "method": "GET"}, {"Authorization": "Bearer new"}) == 200
        assert ask(g.url, {"path": "/v1/models", "method": "GET"}, ADMIN) == 401  # taken away
        keys_file.write_text(key_table("user", "new"))
        assert g.reload() == ""
        assert ask(g.url, {"path": "/v1/models", "method": "GET"}, USER) == 401
        assert done.wait(20) and lines[-2:] == ["data: [DONE]", ""]
        assert sum(chunk.finish_reason == "length" or chunk.finish_reason == "stop" for chunk in stream) == 1
        # New requests over sockets that were opened with the old key are rejected.
        ws.send(json.dumps({"type": "start", "id": "a", "prompt": "tokens=1"}))
        assert json.loads(ws.recv(timeout=20))["error"]["code"] == "unauthorized"
        with pytest.raises(BatonError) as e:
            sdk.generate("tokens=1")
        assert e.value.name == "unauthorized" and sdk.models() == []


@pytest.mark.parametrize("bad", ["[[keys]\n", "[[keys]]\nname = 'x'\n", None])
def test_a_bad_file_is_reported_and_keeps_the_old_keys(start, keys_file, bad):
    g = keyed(start, keys_file)
    if bad is None:
        keys_file.unlink()
    else:
        keys_file.write_text(bad)
    assert str(keys_file) in g.reload()
    assert ask(g.url, {"path": "/v1/models", "method": "GET"}, USER) == 200
    keys_file.write_text("# nobody\n")
    assert g.reload() == ""
    assert ask(g.url, {"path": "/v1/models", "method": "GET"}, USER) == 401
