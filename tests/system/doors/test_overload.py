"""Refusals for load have the operator's status, a reason, the time to retry and the length of the queue. Every API has the same."""

import json
import pathlib
import sys

import httpx
import openai
import pytest
from websockets.sync.client import connect as websocket

from raw import chat, connect, read_reply, request
from raw_zmq import Raw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import codec  # noqa: E402
from baton_client.wire.MessageKind import MessageKind  # noqa: E402
from baton_client.wire.Rejected import Rejected  # noqa: E402

CHAT = "/v1/chat/completions"


def over_http(g):
    reply = httpx.post(g.url + CHAT, json=chat())
    return reply.status_code, reply.headers["retry-after"], reply.json()["error"]


def over_websocket(g):
    with websocket(g.url.replace("http", "ws") + "/v1/stream") as ws:
        ws.send(json.dumps({"type": "start", "id": "a", "prompt": "tokens=1"}))
        received = json.loads(ws.recv(timeout=20))
    assert (received["type"], received["id"]) == ("error", "a")
    return received["error"]


def over_zmq(g):
    """-> (code, retry_after in ms, queue_position)"""
    raw = Raw(g.zmq)
    raw.greet()
    raw.send(MessageKind.generate, codec.generate(1, "fake", "tokens=1", None, codec.GenerateParams(), 1, 0))
    no = Rejected.GetRootAs(raw.body(MessageKind.rejected))
    raw.socket.close()
    return no.Reason().Code(), no.RetryAfterMs(), no.QueuePosition()


@pytest.mark.parametrize("status", [503, 429, 529])
def test_the_schedulers_refusal_is_told_through_every_door(start, status):
    g = start("--slots", "1", "--overload-status", str(status), "--zmq", "tcp://127.0.0.1:*")
    with connect(g) as held:
        held.sendall(request("POST", CHAT, chat("hold=1")))
        g.wait_for("reserve")
        received, retry_after, error = over_http(g)
        assert (received, retry_after) == (status, "2")
        assert (error["code"], error["retry_after"], error["queue_position"]) == ("no_job_ticket", 2, 1)
        error = over_websocket(g)
        assert (error["code"], error["retry_after"], error["queue_position"]) == ("no_job_ticket", 2, 1)
        assert over_zmq(g) == (31, 1500, 1)


@pytest.mark.parametrize("status", [503, 429])
def test_the_gateways_own_rejection_reports_the_known_queue(start, status):
    g = start("--requests", "1", "--overload-status", str(status), "--zmq", "tcp://127.0.0.1:*")
    g.order("waiting 12")
    with connect(g) as held:
        held.sendall(request("POST", CHAT, chat("hold=1")))
        g.wait_for("reserve")
        received, retry_after, error = over_http(g)
        assert (received, retry_after) == (status, "1")
        assert (error["code"], error["retry_after"], error["queue_position"]) == ("overloaded", 1, 12)
        error = over_websocket(g)
        assert (error["code"], error["retry_after"], error["queue_position"]) == ("overloaded", 1, 12)
        assert over_zmq(g) == (30, 1000, 12)
        with pytest.raises(openai.RateLimitError if status == 429 else openai.InternalServerError) as e:
            openai.OpenAI(base_url=g.url + "/v1", api_key="none", max_retries=0).completions.create(model="fake", prompt="x")
        assert e.value.body["queue_position"] == 12


def test_errors_other_than_overload_keep_their_status(start):
    g = start("--overload-status", "429")
    g.order("phase loading")
    received, _, error = over_http(g)
    assert (received, error["code"], error["retry_after"]) == (503, "not_ready", 1)
    assert "queue_position" not in error
    assert httpx.get(g.url + "/health").status_code == 503


def test_connections_beyond_the_limit_get_it_too(start):
    g = start("--connections", "1", "--overload-status", "429")
    with connect(g) as held:
        held.sendall(request("GET", "/version"))
        assert read_reply(held)[0].status == 200
        with connect(g) as s:
            reply, _ = read_reply(s)
            assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            assert reply.json()["error"]["queue_position"] == 0
