"""The official anthropic client against a real model: a message, whole and streamed, its tokens, a stage and a gateway that are killed."""
import json
import time

import anthropic
import pydantic
import pytest
import requests
from harness import running

MESSAGES = [{"role": "user", "content": "Tell me about a small town by the sea."}]
ASKED = {"model": "smollm2", "max_tokens": 100, "messages": MESSAGES}
GREEDY = {**ASKED, "extra_body": {"temperature": 0}}  # the client itself has no temperature any more


@pytest.fixture(scope="module")
def cluster():
    with running() as c:
        yield c


@pytest.fixture(scope="module")
def client(cluster):
    return anthropic.Anthropic(base_url=cluster.url, api_key="x", max_retries=0, timeout=120)


@pytest.fixture(scope="module")
def whole(client):
    return client.messages.create(**GREEDY)


def test_a_message_is_the_chats_and_its_tokens_are_counted(cluster, client, whole):
    chat = cluster.post("/v1/chat/completions", {**ASKED, "temperature": 0})[2]
    assert whole.content[0].text == chat["choices"][0]["message"]["content"]
    assert whole.stop_reason == {"length": "max_tokens", "stop": "end_turn"}[chat["choices"][0]["finish_reason"]]
    counted = client.messages.count_tokens(model="smollm2", messages=MESSAGES).input_tokens
    assert whole.usage.input_tokens + whole.usage.cache_read_input_tokens == counted == chat["usage"]["prompt_tokens"]
    long = {"system": "Be brief. " * 100, "model": "smollm2", "messages": MESSAGES}
    usages = [client.messages.create(**long, max_tokens=1).usage for _ in range(2)]
    assert usages[1].cache_read_input_tokens > usages[0].cache_read_input_tokens
    assert {u.input_tokens + u.cache_read_input_tokens for u in usages} == {client.messages.count_tokens(**long).input_tokens}


def test_the_beginning_of_an_answer_is_continued(client, whole):
    text = whole.content[0].text
    begun = text[: text.index(" ", 40)]  # between two words: their tokens are the same
    more = client.messages.create(**{**GREEDY, "messages": [*MESSAGES, {"role": "assistant", "content": begun}], "max_tokens": 8}).content[0].text
    assert text.startswith(begun + more)


class Town(pydantic.BaseModel):
    inhabitants: int  # the client takes bounds out of the schema
    has_harbour: bool


def test_an_answer_has_the_format_that_the_client_parses(client):
    """The client sends `output_config.format`; its stream does too."""
    asked = {**GREEDY, "messages": [*MESSAGES, {"role": "assistant", "content": "It is small."}, {"role": "user", "content": "How many live there?"}]}
    town = client.messages.parse(**asked, output_format=Town).parsed_output
    assert isinstance(town, Town)
    with client.messages.stream(**asked, output_format=Town) as stream:
        assert isinstance(stream.get_final_message().parsed_output, Town)
    with pytest.raises(anthropic.BadRequestError, match="output_config.format.schema"):
        client.messages.create(**asked, output_config={"format": {"type": "json_schema", "schema": {"type": "colour"}}})


def test_a_stream_outlives_a_killed_stage(cluster, client, whole):
    former = cluster.pids()
    with client.messages.stream(**GREEDY) as stream:
        text = ""
        for piece in stream.text_stream:
            if not text:
                cluster.kill("shard-1")
            text += piece
        final = stream.get_final_message()
    assert text == final.content[0].text == whole.content[0].text and final.stop_reason == whole.stop_reason
    cluster.wait_standing(("shard-1", former["shard-1"]))


def read(cluster, killed, last_id=None):
    """(text, last id, whether the message has ended) of a stream; `killed` is killed after its first piece."""
    text, place, ended = "", last_id, False
    held = ""  # of events after the last id
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with requests.post(cluster.url + "/v1/messages", json={**ASKED, "temperature": 0, "stream": True}, headers=headers, stream=True, timeout=60) as answer:
        assert answer.status_code == 200, answer.text
        event_id = None
        try:
            for line in answer.iter_lines(decode_unicode=True):
                if line.startswith("id: "):
                    event_id = line[4:]
                elif line.startswith("data: "):
                    data = json.loads(line[6:])
                    held += data["delta"].get("text", "") if data["type"] == "content_block_delta" else ""
                    ended = ended or data["type"] == "message_stop"
                elif not line and event_id:
                    text, held, place, event_id = text + held, "", event_id, None
                    if killed and text:
                        cluster.kill(killed)
                        killed = None
        except requests.RequestException:
            assert not ended
    return text, place, ended


def test_a_stream_is_continued_after_its_gateway_was_killed(cluster, whole):
    former = cluster.pids()
    text, place, ended = read(cluster, "gateway")
    assert text and place and not ended
    cluster.wait_standing(("gateway", former["gateway"]))
    for _ in range(20):  # until the head has found the new gateway
        try:
            more, _, ended = read(cluster, None, place)
            break
        except (AssertionError, requests.RequestException):
            time.sleep(0.5)
    assert ended and text + more == whole.content[0].text
