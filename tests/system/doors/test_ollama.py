"""Ollama's API: raw HTTP, and the ollama client of PyPI, synchronous and asynchronous, at an address of its own and at the ordinary one. The fake
head repeats the given text, in pieces of three bytes."""

import asyncio
import json

import httpx
import ollama
import pytest
from fake_answers import call, say, saying
from raw import connect, exchange, request

from conftest import Gateway, key_table

CHAT, GENERATE = "/api/chat", "/api/generate"
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


@pytest.fixture(scope="module")
def own():
    """A gateway with an address for Ollama's API."""
    g = Gateway("--ollama", "127.0.0.1:0", "--allow-unauthenticated")
    assert g.is_ready and g.ollama
    yield g
    assert g.stop() == 0


@pytest.fixture
def client(own):
    return ollama.Client(host=own.ollama, timeout=30)


TWO = "I look.\n" + call("get_weather", {"city": "Zürich \"x\"", "days": 2}) + "\n" + call("get_time", {})


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city.

    Args:
        city: its name
        days: how many
    """
    return f"12 in {city} for {days}"


def get_time() -> str:
    """The time."""
    return "noon"


def post(gateway, route, body, headers=None):
    return httpx.post(gateway.url + route, json={"model": "fake", **body}, headers=headers, timeout=30)


def lines_of(reply):
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("application/x-ndjson"), reply.text
    return [json.loads(line) for line in reply.text.splitlines()]


def check_end(answer, tokens, reason="stop"):
    """The last piece: counts that are true and durations that add up."""
    assert answer["done"] is True and answer["done_reason"] == reason
    assert answer["eval_count"] == tokens and answer["prompt_eval_count"] > 0
    total, *parts = (answer[name] for name in DURATIONS)
    assert total > 0 and all(part >= 0 for part in parts) and sum(parts) == total


def test_whole(client):
    r = client.chat("fake", say("tokens=3"))
    assert (r.message.role, r.message.content, r.message.tool_calls, r.model) == ("assistant", "w0 w1 w2 ", None, "fake")
    check_end(r, 3)
    r = client.generate("fake", "tokens=3", system="Be brief.")
    assert r.response == "w0 w1 w2 " and r.created_at.endswith("Z")
    check_end(r, 3)
    check_end(client.generate("fake", "tokens=9", options={"num_predict": 2}), 2, "length")
    assert client.generate("fake", "tokens=9 stop=END", options=ollama.Options(stop=["END"])).done_reason == "stop"


def test_durations_are_measured(client):
    """Ten pieces, 20 ms apart."""
    r = client.generate("fake", "tokens=10 pace_ms=20")
    assert 150e6 < r.eval_duration < r.total_duration < 20e9
    *_, last = client.chat("fake", say("tokens=10 pace_ms=20"), stream=True)
    assert 150e6 < last.eval_duration < last.total_duration < 20e9


def test_streams(client):
    parts = list(client.chat("fake", say("tokens=4 pace_ms=5"), stream=True))
    assert [p.message.content for p in parts] == ["w0 ", "w1 ", "w2 ", "w3 ", ""]
    assert [p.done for p in parts] == [False] * 4 + [True]
    check_end(parts[-1], 4)
    parts = list(client.generate("fake", "tokens=2 pace_ms=5", stream=True))
    assert [p.response for p in parts] == ["w0 ", "w1 ", ""]
    check_end(parts[-1], 2)


def test_lines_as_they_are(own):
    lines = lines_of(post(own, CHAT, {"messages": say("tokens=2 pace_ms=5")}))  # a stream, unless the client says otherwise
    assert [set(line) for line in lines[:-1]] == [{"model", "created_at", "message", "done", "id"}] * 2
    assert lines[0]["message"] == {"role": "assistant", "content": "w0 "}
    check_end(lines[-1], 2)
    whole = post(own, CHAT, {"messages": say("tokens=2"), "stream": False})
    assert whole.headers["content-type"].startswith("application/json") and whole.json()["message"]["content"] == "w0 w1 "
    form = httpx.post(own.ollama + GENERATE, content=b'{"model":"fake","prompt":"tokens=1"}', headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert lines_of(form)[0]["response"] == "w0 "  # curl -d


def test_asynchronous_client(own):
    async def all_of_it():
        client = ollama.AsyncClient(host=own.ollama, timeout=30)

        async def text(n):
            return "".join([p.message.content async for p in await client.chat("fake", say(f"tokens={n} pace_ms=5"), stream=True)])

        streamed = await asyncio.gather(*(text(n) for n in (1, 2, 3)))
        return streamed, (await client.generate("fake", "tokens=1")).response, [m.model for m in (await client.list()).models]

    assert asyncio.run(all_of_it()) == (["w0 ", "w0 w1 ", "w0 w1 w2 "], "w0 ", ["fake:latest"])


def test_calls_of_tools_and_their_results(start):
    gateway = start()  # its own gateway: the test reads the head's requests
    client = ollama.Client(host=gateway.url, timeout=30)
    r = client.chat("fake", saying(TWO), tools=[get_weather, get_time])
    tools = gateway.wait_for("tools")["tools"]
    assert [t["function"]["name"] for t in tools] == ["get_weather", "get_time"]
    assert tools[0]["function"]["parameters"]["properties"]["city"] == {"type": "string", "description": "its name"}
    weather, time = r.message.tool_calls
    assert r.message.content == "I look." and r.done_reason == "stop"
    assert (weather.function.name, weather.function.arguments) == ("get_weather", {"city": "Zürich \"x\"", "days": 2})
    assert (time.function.name, time.function.arguments) == ("get_time", {})
    parts = list(client.chat("fake", saying(TWO), tools=[get_weather, get_time], stream=True))
    assert [c for p in parts for c in p.message.tool_calls or ()] == [weather, time]
    assert "".join(p.message.content for p in parts) == "I look." and parts[-1].done
    # The client's message goes back unchanged, with the results.
    messages = [*saying("Done."), r.message, {"role": "tool", "tool_name": "get_weather", "content": "12 °C"},
                {"role": "tool", "tool_name": "get_time", "content": "noon"}]
    assert client.chat("fake", messages, tools=[get_weather, get_time]).message.content == "Done."


def test_format_options_and_fields(client):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for wanted in ("json", schema):
        assert client.chat("fake", saying('{"a": 1}'), format=wanted).message.content == '{"a": 1}'
    every = {"temperature": 0, "top_k": 5, "top_p": 0.5, "min_p": 0.1, "typical_p": 1.0, "seed": 1, "num_predict": -1, "repeat_penalty": 1.1, "repeat_last_n": -1,
             "presence_penalty": 0.1, "frequency_penalty": 0.1, "num_ctx": 8192, "num_gpu": 1, "num_thread": 8, "num_batch": 8, "use_mmap": True, "num_keep": 4}
    assert client.generate("fake", "tokens=1", options=every, keep_alive="5m", think=False, raw=True).response == "w0 "
    assert client.chat("fake", [*say("tokens=1"), {"role": "assistant", "content": "So "}]).message.content == "w0 "
    r = client.chat("fake", say("tokens=2"), logprobs=True, top_logprobs=1)
    assert [p.token for p in r.logprobs] == ["w0 ", "w1 "] and all(len(p.top_logprobs) == 1 for p in r.logprobs)


def test_a_request_without_a_prompt_loads(own, client):
    r = client.generate("fake", keep_alive=0)
    assert (r.done, r.done_reason, r.response) == (True, "load", "")
    r = client.chat("fake", [])
    assert (r.done, r.done_reason, r.message.content) == (True, "load", "")
    assert [p.done_reason for p in client.generate("fake", stream=True)] == ["load"]
    assert post(own, GENERATE, {}).json()["done_reason"] == "load"


def test_models(own, client):
    (listed,) = client.list().models
    assert listed.model == "fake:latest" and listed.modified_at and len(listed.digest) == 64
    (running,) = client.ps().models
    assert running.model == "fake:latest" and running.context_length > 0
    for name in ("fake", "fake:latest"):
        shown = client.show(name)
        assert "completion" in shown.capabilities and shown.details.family
        assert shown.modelinfo[f"{shown.details.family}.context_length"] == running.context_length
        assert client.generate(name, "tokens=1").model == name
    assert httpx.get(own.ollama + "/api/version").json()["version"].count(".") == 2


def test_model_files_are_not_changed(own, client):
    assert client.pull("fake").status == "success"
    assert [p.status for p in client.pull("fake:latest", stream=True)] == ["success"]
    with pytest.raises(ollama.ResponseError, match="model 'other' not found") as e:
        client.pull("other")
    assert e.value.status_code == 404
    for refused in (lambda: client.push("fake"), lambda: client.create("x", from_="fake"), lambda: client.copy("fake", "x"), lambda: client.delete("fake")):
        with pytest.raises(ollama.ResponseError, match="this server does not") as e:
            refused()
        assert e.value.status_code == 403


def test_embeddings(own, client):
    """The fake head is an engine without rows: refused as OpenAI's route is. Else they are vectors of length 1."""
    openai = httpx.post(own.url + "/v1/embeddings", json={"input": ["a", "b"]})
    if openai.status_code == 200:
        vectors = [d["embedding"] for d in openai.json()["data"]]
        r = client.embed("fake", ["a", "b"], truncate=True)
        assert [list(v) for v in r.embeddings] == vectors and r.prompt_eval_count == openai.json()["usage"]["prompt_tokens"]
        assert r.total_duration >= r.load_duration >= 0
        assert list(client.embed("fake", "a").embeddings[0]) == vectors[0] == list(client.embeddings("fake", "a").embedding)
    else:
        for refused in (lambda: client.embed("fake", ["a"]), lambda: client.embeddings("fake", "a")):
            with pytest.raises(ollama.ResponseError) as e:
                refused()
            assert e.value.status_code == openai.status_code and e.value.error == openai.json()["error"]["message"]
    assert client.embed("fake", []).embeddings == []
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.embed("other", "a")
    with pytest.raises(ollama.ResponseError, match="dimensions"):
        client.embed("fake", "a", dimensions=3)


def test_the_address_of_its_own(own):
    for method in ("GET", "HEAD"):
        r = httpx.request(method, own.ollama + "/")
        assert r.status_code == 200 and r.headers["content-type"].startswith("text/plain")
        assert r.text == ("Ollama is running" if method == "GET" else "")
    assert httpx.post(own.ollama + "/v1/chat/completions", json={"messages": say("tokens=1")}).json()["choices"]  # Ollama has OpenAI's routes too
    for path in ("/generate", "/metrics", "/cluster", "/page/main.js", "/v2/health/live", "/api/blobs/x", "/api", "/no"):
        r = httpx.get(own.ollama + path)
        assert r.status_code == 404 and list(r.json()) == ["error"], path
    assert httpx.get(own.url + "/").text != "Ollama is running"  # the web page
    assert httpx.get(own.url + "/api/tags").json() == httpx.get(own.ollama + "/api/tags").json()
    assert httpx.get(own.url + "/api/no").json() == {"error": "there is no route '/api/no'"}


def test_keys(start, keys_file):
    keys_file.write_text(key_table("user", "k"))
    g = start("--keys", str(keys_file), "--ollama", "127.0.0.1:0")
    for url in (g.url, g.ollama):
        client = ollama.Client(host=url, headers={"Authorization": "Bearer k"})
        assert client.generate("fake", "tokens=1").response == "w0 "
        for wrong in ({}, {"Authorization": "Bearer K"}):
            with pytest.raises(ollama.ResponseError) as e:
                ollama.Client(host=url, headers=wrong).generate("fake", "tokens=1")
            assert e.value.status_code == 401 and e.value.error
        assert httpx.get(url + "/api/tags").status_code == 401
    assert httpx.get(g.ollama + "/").text == "Ollama is running"  # as health, it needs none


def test_errors(own, client):
    for ask in (lambda: client.chat("other", say("a")), lambda: client.generate("other", "a"), lambda: client.show("other"), lambda: list(client.chat("other", say("a"), stream=True))):
        with pytest.raises(ollama.ResponseError) as e:
            ask()
        assert e.value.status_code == 404 and e.value.error == "model 'other' not found"
    for fields, name in (({"think": True}, "think"), ({"suffix": "x"}, "suffix"), ({"template": "{{ .Prompt }}"}, "template"), ({"context": [1]}, "context"),
                         ({"images": [b"\x89PNG"]}, "images"), ({"options": {"mirostat": 1}}, "options.mirostat"),
                         ({"options": {"temperature": -1}}, "options.temperature"), ({"options": {"colour": 1}}, "options.colour"),
                         ({"options": {"repeat_penalty": 1.1, "repeat_last_n": 64}}, "options.repeat_last_n"), ({"format": {"type": "nope"}}, "format")):
        with pytest.raises(ollama.ResponseError) as e:
            client.generate("fake", "a", **fields)
        assert e.value.status_code == 400 and name in e.value.error, fields
    for data, status in ((request("GET", CHAT), 405), (request("POST", CHAT, b"{"), 400), (request("POST", CHAT, b"{}"), 400),
                         (request("POST", CHAT, b"x", headers=["Content-Encoding: gzip"]), 415)):
        reply = exchange(own, data)
        assert reply.status == status and list(reply.json()) == ["error"]
    with connect(own) as s:
        s.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n".encode())
        received = s.recv(65536).decode()
    assert " 413 " in received.split("\r\n")[0] and '{"error":"' in received


def test_overload(start):
    g = start("--slots", "1", "--overload-status", "429")
    with connect(g) as held:
        held.sendall(request("POST", CHAT, {"model": "fake", "messages": say("hold=1")}))
        g.wait_for("reserve")
        for stream in (False, True):
            r = post(g, CHAT, {"messages": say("a"), "stream": stream})
            assert (r.status_code, r.headers["retry-after"]) == (429, "2") and list(r.json()) == ["error"]
        with pytest.raises(ollama.ResponseError) as e:
            ollama.Client(host=g.url).generate("fake", "a")
        assert e.value.status_code == 429


def test_a_failure_ends_a_stream_with_one_line(own, client):
    lines = lines_of(post(own, CHAT, {"messages": say("tokens=5 fail_at=3 pace_ms=5")}))
    assert [set(line) == {"error"} for line in lines] == [False] * (len(lines) - 1) + [True]
    assert not any(line.get("done") for line in lines)
    with pytest.raises(ollama.ResponseError):
        list(client.chat("fake", say("tokens=5 fail_at=3 pace_ms=5"), stream=True))
    with pytest.raises(ollama.ResponseError) as e:
        client.chat("fake", say("tokens=5 fail_at=3"))
    assert e.value.status_code == 500


def together(lines):
    """The text, the calls and the end: a continued stream may cut the text elsewhere."""
    messages = [line["message"] for line in lines]
    return ("".join(m["content"] for m in messages), [c for m in messages for c in m.get("tool_calls", ())],
            {k: v for k, v in lines[-1].items() if k in ("done", "done_reason", "eval_count", "prompt_eval_count")})


@pytest.mark.parametrize("has_tools", [False, True])
def test_a_stream_is_continued_behind_any_id(own, has_tools):
    tools = [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {}}}} for n in ("get_weather", "get_time")]
    body = {"messages": saying(TWO if has_tools else "Only a text."), **({"tools": tools} if has_tools else {})}
    lines = lines_of(post(own, CHAT, body))
    places = [i for i, line in enumerate(lines) if "id" in line]
    assert places[-1] == len(lines) - 1 and len(places) > 2
    for at in places[:-1]:
        rest = lines_of(post(own, CHAT, body, {"Last-Event-ID": lines[at]["id"]}))
        assert together(rest) == together(lines[at + 1:]), lines[at]
    (end,) = lines_of(post(own, CHAT, body, {"Last-Event-ID": lines[-1]["id"]}))
    assert end["done"] and end["message"]["content"] == ""
    gone = post(own, CHAT, body, {"Last-Event-ID": "99999999" + lines[-1]["id"]})
    assert gone.status_code == 404 and gone.json()["error"]
    for fields, bad in (({"stream": False}, lines[-1]["id"]), ({}, "x"), ({}, lines[-1]["id"].rsplit(".", 1)[0])):
        refused = post(own, CHAT, {**body, **fields}, {"Last-Event-ID": bad})
        assert refused.status_code == 400 and "Last-Event-ID" in refused.json()["error"]
