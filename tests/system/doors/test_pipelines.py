"""One gateway in front of several heads: two serve the same model, one serves another."""

import json
import pathlib
import sys

import httpx
import pytest

from raw import chat, connect, request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import BatonError, Client  # noqa: E402

CHAT = "/v1/chat/completions"
PIPELINES_MAX = 64  # schema/ids.hpp


def pipelines(*models):
    return [word for model in models for word in ("--pipeline", model)]


def ask(g, content="tokens=2", **fields):
    return httpx.post(g.url + CHAT, json=chat(content, **fields), timeout=30)


def pipeline_of(g):
    """The pipeline of the request admitted last."""
    return g.wait_for("reserve")["ticket"] % PIPELINES_MAX


def test_a_full_pipeline_passes_requests_to_the_other(start):
    g = start(*pipelines("fake", "fake"), "--slots", "1")
    with connect(g) as first, connect(g) as second:
        taken = set()
        for held in (first, second):
            held.sendall(request("POST", CHAT, chat("hold=1")))
            taken.add(pipeline_of(g))
        assert taken == {0, 1}
        refused = ask(g)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "no_job_ticket"
    for _ in range(2):
        g.wait_for("cancel")
    assert ask(g).json()["choices"][0]["message"]["content"] == "w0 w1 "


def test_the_loss_of_a_head_is_no_loss_of_the_other(start):
    g = start(*pipelines("fake", "fake"))
    body = chat("tokens=40 pace_ms=20", stream=True)
    with httpx.stream("POST", g.url + CHAT, json=body, timeout=30) as reply:
        serves = pipeline_of(g)
        lines = reply.iter_lines()
        next(lines)
        g.order(f"head_down {1 - serves}")
        assert httpx.get(g.url + "/health").json() == {"status": "ok", "phase": "ready", "reason": None, "model": "fake"}
        assert ask(g).status_code == 200
        assert pipeline_of(g) == serves
        assert [line for line in lines if line][-1] == "data: [DONE]"
    g.order(f"head_down {serves}")
    health = httpx.get(g.url + "/health")
    assert health.status_code == 503
    assert health.json()["reason"] == "the model 'fake' is not served: the head is down: told to be down"
    g.order("head_up 1")
    assert httpx.get(g.url + "/health").status_code == 200


def test_a_client_comes_back_to_the_pipeline_of_its_ticket(start):
    g = start(*pipelines("fake", "fake", "other"), "--zmq", "tcp://127.0.0.1:*")
    for model in ("fake", "fake", "other"):
        body = chat("tokens=3", stream=True, resumable=True) | {"model": model}
        events = httpx.post(g.url + CHAT, json=body, timeout=30).text.split("\n\n")
        place = events[1].split("\n")[0].removeprefix("id: ")
        assert int(place.split("-")[0]) % PIPELINES_MAX == pipeline_of(g)
        again = httpx.post(g.url + CHAT, json=body, timeout=30, headers={"Last-Event-ID": place}).text
        received = [json.loads(line.removeprefix("data: ")) for line in again.split("\n") if line.startswith("data: {")]
        assert "".join(e["choices"][0]["delta"].get("content", "") for e in received) == "w1 w2 "
        nobodys = str(int(place.split("-")[0]) + 3) + place[place.index("-"):]
        lost = httpx.post(g.url + CHAT, json=body, timeout=30, headers={"Last-Event-ID": nobodys})
        assert lost.status_code == 404 and lost.json()["error"]["code"] == "ticket_not_found"


def test_a_request_is_named_once_for_all_pipelines(start):
    g = start(*pipelines("fake", "fake", "fake"))
    for name in ("order 1", "order 2", "order 3", "order 4"):
        homes = set()
        for _ in range(3):
            assert ask(g, request_id=name).status_code == 200
            homes.add(pipeline_of(g))
        assert len(homes) == 1


def test_the_same_beginning_goes_where_it_went(start):
    g = start(*pipelines("fake", "fake"))
    talk = "tokens=2 " + "x" * 1000
    ask(g, talk)
    home = pipeline_of(g)
    for _ in range(3):
        ask(g, "tokens=1")
        pipeline_of(g)
        ask(g, talk + " and more")
        assert pipeline_of(g) == home
    text = httpx.get(g.url + "/metrics").text
    assert f'baton_router_requests_total{{engine="{home}",model_name="fake",reason="prefix"}} 3' in text


def test_two_models(start):
    g = start(*pipelines("fake", "other"), "--zmq", "tcp://127.0.0.1:*", "--alias", "gpt")
    assert [m["id"] for m in httpx.get(g.url + "/v1/models").json()["data"]] == ["fake", "other", "gpt"]
    assert httpx.get(g.url + "/v1/models/other").json()["id"] == "other"
    for model, pipeline in (("fake", 0), ("gpt", 0), ("other", 1)):
        reply = httpx.post(g.url + CHAT, json=chat("tokens=1") | {"model": model})
        assert reply.json()["model"] == model
        assert pipeline_of(g) == pipeline
    unknown = httpx.post(g.url + CHAT, json=chat() | {"model": "third"})
    assert unknown.status_code == 404
    assert unknown.json()["error"]["message"] == "the model 'third' does not exist; this server has 'fake' and 'other'"
    with Client(g.zmq) as client:
        assert [m.name for m in client.models()] == ["fake", "other"]
        assert client.generate("tokens=1", model="other").text == "w0 "
        assert pipeline_of(g) == 1
        with pytest.raises(BatonError) as e:
            client.generate("tokens=1", model="third")
        assert e.value.name == "model_not_found"
    g.order("phase loading 1")
    health = httpx.get(g.url + "/health").json()
    assert (health["phase"], health["reason"]) == ("loading", "the model 'other' is not served: told so")
    assert ask(g).status_code == 200
    g.order("waiting 7 1")
    received = httpx.get(g.url + "/load").json()["pipelines"]
    assert [(p["pipeline"], p["model"], p["phase"]) for p in received] == [(0, "fake", "ready"), (1, "other", "loading")]
    assert received[0]["scheduler"] is None and received[1]["scheduler"]["waiting"] == 7
