"""POST /generate with a prompt, as vLLM's api_server and its client have it."""

import json

import httpx
import pytest


@pytest.fixture
def url(gateway):
    return gateway.url + "/generate"


def lines_of(url, body):
    """As vLLM's examples/online_serving/api_client.py reads them."""
    with httpx.stream("POST", url, json=body, timeout=30) as r:
        assert r.status_code == 200 and r.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in r.iter_lines() if line]


def test_whole(url):
    r = httpx.post(url, json={"prompt": "tokens=3", "n": 2, "temperature": 0.0, "max_tokens": 16})
    assert r.status_code == 200 and r.json() == {"text": ["tokens=3w0 w1 w2 "] * 2}
    assert httpx.post(url, json={"prompt": "tokens=9", "max_tokens": 2}).json() == {"text": ["tokens=9w0 w1 "]}


def test_each_line_has_all_so_far(url):
    prompt = "tokens=5 pace_ms=10"
    lines = [line["text"][0] for line in lines_of(url, {"prompt": prompt, "stream": True})]
    assert lines[-1] == prompt + "w0 w1 w2 w3 w4 "
    assert len(lines) > 1 and all(b.startswith(a) for a, b in zip(lines, lines[1:]))


def test_the_other_body_is_tgis(url):
    assert httpx.post(url, json={"inputs": "tokens=1"}).json() == {"generated_text": "w0 "}
    both = httpx.post(url, json={"inputs": "a", "prompt": "b"})
    assert both.status_code == 400 and both.json()["error"]["param"] == "inputs"
    neither = httpx.post(url, json={})
    assert neither.status_code == 422 and neither.json()["error_type"] == "validation"


def test_errors_are_openais(url):
    r = httpx.post(url, json={"prompt": "a", "temperature": 9})
    assert r.status_code == 400 and r.json()["error"]["param"] == "temperature"
    for stream in (False, True):
        r = httpx.post(url, json={"prompt": "refuse=context_length_exceeded", "stream": stream})
        assert r.status_code == 400 and r.json()["error"]["code"] == "context_length_exceeded"
    r = httpx.post(url, json={"prompt": "a", "stream": True}, headers={"Last-Event-ID": "1-0000000000000001:1"})
    assert r.status_code == 400 and r.json()["error"]["param"] == "Last-Event-ID"


def test_an_error_on_the_way_is_the_last_line(url):
    lines = lines_of(url, {"prompt": "tokens=9 pace_ms=5 fail_at=4", "stream": True})
    assert lines[-1]["error"]["code"] == "internal" and "error" not in lines[0]
