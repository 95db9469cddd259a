"""The Responses API, several prompts and vLLM's /generate with the default model. They return the tokens of the other APIs, also when a
stage is killed. A killed gateway's background responses are checked as well."""
import json
import time

import jsonschema
import openai
import pydantic
import pytest

PROMPTS = ["Once upon a time, in a small town by the sea,", "Fruits: apple, banana,", "2 + 2 ="]
SAY = "Tell me about the sea."


def client_of(cluster):
    return openai.OpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0, timeout=300)


@pytest.fixture
def client(shared):
    return client_of(shared)


def until_over(cluster, response_id, seconds=120):
    """Retries while the gateway restarts."""
    end = time.monotonic() + seconds
    while True:
        try:
            r = client_of(cluster).responses.retrieve(response_id)
            if r.status not in ("queued", "in_progress"):
                return r
        except (openai.APIConnectionError, openai.InternalServerError):
            pass
        assert time.monotonic() < end
        time.sleep(0.1)


def completion(client, **fields):
    return client.completions.create(model="smollm2", **{"max_tokens": 20, **fields})


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 1.0, "seed": 7, "n": 2}])
def test_each_of_several_prompts_is_answered_as_if_it_were_alone(client, fields):
    alone = [c for p in PROMPTS for c in completion(client, prompt=p, **fields).choices]
    all_ = completion(client, prompt=PROMPTS, **fields)
    assert [(c.text, c.finish_reason) for c in all_.choices] == [(c.text, c.finish_reason) for c in alone]
    assert [c.index for c in all_.choices] == list(range(len(alone)))
    streamed = {}
    for chunk in completion(client, prompt=PROMPTS, stream=True, **fields):
        for c in chunk.choices:
            streamed[c.index] = streamed.get(c.index, "") + c.text
    assert streamed == {i: c.text for i, c in enumerate(alone)}


def test_one_prompt_that_does_not_fit_refuses_all(client, shared):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as e:
            completion(client, prompt=[PROMPTS[0], "a b c d " * 4000, PROMPTS[1]], stream=stream, max_tokens=400)
        assert e.value.code == "context_length_exceeded"


def test_vllms_generate_says_what_a_completion_says(client, shared):
    reply = completion(client, prompt=PROMPTS[0], temperature=0).choices[0].text
    status, _, body = shared.post("/generate", {"prompt": PROMPTS[0], "temperature": 0, "max_tokens": 20})
    assert status == 200 and body == {"text": [PROMPTS[0] + reply]}


def test_a_response_says_what_a_chat_says(client):
    ask = dict(temperature=0, model="smollm2")
    chat = client.chat.completions.create(messages=[{"role": "system", "content": "You are brief."}, {"role": "user", "content": SAY}], max_tokens=30, **ask)
    r = client.responses.create(input=SAY, instructions="You are brief.", max_output_tokens=30, **ask)
    assert r.output_text == chat.choices[0].message.content
    assert (r.usage.input_tokens, r.usage.output_tokens) == (chat.usage.prompt_tokens, chat.usage.completion_tokens)
    streamed = list(client.responses.create(input=SAY, instructions="You are brief.", max_output_tokens=30, stream=True, **ask))
    assert streamed[-1].response.output_text == r.output_text
    again = client.responses.create(input="And the mountains?", previous_response_id=r.id, max_output_tokens=20, **ask)
    messages = [{"role": "user", "content": SAY}, {"role": "assistant", "content": r.output_text}, {"role": "user", "content": "And the mountains?"}]
    assert again.output_text == client.chat.completions.create(messages=messages, max_tokens=20, **ask).choices[0].message.content


def test_structured_and_called(client):
    class City(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=12)
        people: int = pydantic.Field(ge=0, le=9_000_000)

    r = client.responses.parse(model="smollm2", input="A city as JSON.", text_format=City, max_output_tokens=200)
    assert r.status == "completed" and 0 <= r.output_parsed.people <= 9_000_000
    move = {"type": "object", "properties": {"direction": {"enum": ["north", "south"]}, "steps": {"type": "integer", "minimum": 1, "maximum": 99}},
            "required": ["direction", "steps"], "additionalProperties": False}
    called = client.responses.create(model="smollm2", input="Go somewhere.", tools=[{"type": "function", "name": "move", "parameters": move}],
                                     tool_choice="required", parallel_tool_calls=False, max_output_tokens=200)
    assert [o.type for o in called.output] == ["function_call"]
    jsonschema.Draft202012Validator(move).validate(json.loads(called.output[0].arguments))


def test_a_background_response_survives_a_stage_and_a_gateway(fresh):
    ask = dict(model="smollm2", input=SAY, temperature=0.9, max_output_tokens=160, extra_body={"seed": 5})
    undisturbed = client_of(fresh).responses.create(**ask)
    for process in ("shard-0", "shard-1", "head"):
        former = (process, fresh.pid(process))
        r = client_of(fresh).responses.create(background=True, **ask)
        fresh.kill(process)
        assert until_over(fresh, r.id).output_text == undisturbed.output_text
        fresh.wait_standing(former)
    r = client_of(fresh).responses.create(background=True, **ask)
    former = ("gateway", fresh.pid("gateway"))
    fresh.kill("gateway")
    fresh.wait_standing(former)
    done = until_over(fresh, r.id)
    assert (done.id, done.status, done.output_text) == (r.id, undisturbed.status, undisturbed.output_text)
    assert "recovered" in done.metadata
    events = list(client_of(fresh).responses.retrieve(r.id, stream=True))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == undisturbed.output_text
    with pytest.raises(openai.NotFoundError):  # one that was not in the background went with its gateway
        client_of(fresh).responses.retrieve(undisturbed.id)
    wrong = r.id[:-1] + ("0" if r.id[-1] != "0" else "1")
    with pytest.raises(openai.NotFoundError):
        client_of(fresh).responses.retrieve(wrong)
