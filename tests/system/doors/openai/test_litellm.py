"""LiteLLM's proxy (PyPI), in a venv of its own, in front of the gateway: its clients ask by OpenAI's and by Anthropic's API, and it asks by both."""
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import anthropic
import httpx
import openai
import pytest
from fake_answers import call, say, saying

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from own_venv import program  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs/apis/clients.md"
START_SECONDS_MAX = 120  # it imports for 10 s
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def config_of_the_page(gateway_url):
    section = PAGE.read_text().split("\n## LiteLLM\n")[1].split("\n## ")[0]
    text = re.search(r"^```yaml\n(.*?)^```", section, re.M | re.S)[1]
    return text.replace("http://localhost:8000", gateway_url).replace("/smollm2,", "/fake,")


@contextlib.contextmanager
def proxy(folder, gateway_url):
    """-> its URL"""
    config = folder / "litellm.yaml"
    config.write_text(config_of_the_page(gateway_url))
    url = f"http://127.0.0.1:{free_port()}"
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(folder), "NO_COLOR": "1"}  # nothing is fetched
    with open(folder / "output", "w+") as out:
        process = subprocess.Popen([program("litellm", "litellm"), "--config", config, "--host", "127.0.0.1", "--port", url.rpartition(":")[2]],
                                   stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        try:
            until = time.monotonic() + START_SECONDS_MAX
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(url + "/health/liveliness", timeout=5).status_code == 200:
                        break
                assert process.poll() is None and time.monotonic() < until, (folder / "output").read_text()[-3000:]
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def url(gateway, tmp_path_factory):
    with proxy(tmp_path_factory.mktemp("litellm"), gateway.url) as made:
        yield made


@pytest.fixture(params=["smollm2", "smollm2-messages"])
def model(request):
    """Named after the route by which the proxy asks the gateway."""
    return request.param


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60)


def test_chat_whole_and_streamed(client, model):
    whole = client.chat.completions.create(model=model, messages=say("tokens=3"), max_tokens=50)
    assert whole.choices[0].message.content == "w0 w1 w2 " and whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == 3 and whole.usage.prompt_tokens > 0
    events = list(client.chat.completions.create(model=model, messages=say("tokens=4 pace_ms=5"), max_tokens=50, stream=True,
                                                 stream_options={"include_usage": True}))
    assert "".join(e.choices[0].delta.content or "" for e in events if e.choices) == "w0 w1 w2 w3 "
    assert [e.choices[0].finish_reason for e in events if e.choices and e.choices[0].finish_reason] == ["stop"]
    assert events[-1].usage.completion_tokens == 4


def test_a_call_of_a_tool(client, model):
    answer = client.chat.completions.create(model=model, messages=saying(call("get_weather", {"city": "Zürich"})), max_tokens=200, tools=[WEATHER])
    (called,) = answer.choices[0].message.tool_calls
    assert (called.function.name, '"Zürich"' in called.function.arguments.replace("\\u00fc", "ü")) == ("get_weather", True)


def test_anthropics_messages_whole_and_streamed(url, model):
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=60)
    whole = client.messages.create(model=model, max_tokens=50, messages=say("tokens=3"))
    assert [b.text for b in whole.content] == ["w0 w1 w2 "] and whole.stop_reason == "end_turn" and whole.usage.output_tokens == 3
    with client.messages.stream(model=model, max_tokens=50, messages=say("tokens=4 pace_ms=5")) as stream:
        assert "".join(stream.text_stream) == "w0 w1 w2 w3 "


def test_embeddings(client):
    assert len(client.embeddings.create(model="smollm2", input="a").data[0].embedding) > 1


def test_a_refusal_passes_through(client, model):
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=model, messages=say("tokens=3"), max_tokens=50, temperature=-1)
