"""A model's reasoning through every API: separated, bounded, turned off, and the same after kill -9. The model is tiny, with
random weights and Qwen 3's marks in its vocabulary and template. A budget ends its reasoning."""
import json
import os
import re
import subprocess

import anthropic
import ollama
import openai
import pytest
from harness import CLUSTER, ROOT, running
from marked_model import marked_model
from streams import Stream
from terminal import terminal

MARKS = ["<think>", "</think>"]
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% else %}<think>
{% endif %}{% endif %}"""
ASK = [{"role": "user", "content": "How many?"}]
BUDGET = 12
ASKED = {"messages": ASK, "max_tokens": 40, "temperature": 0, "ignore_eos": True, "thinking_token_budget": BUDGET}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running(path=marked_model(tmp_path_factory.mktemp("thinks"), MARKS, TEMPLATE, are_control=False)) as c:
        yield c


def chat(cluster, **fields):
    status, _, answer = cluster.post("/v1/chat/completions", ASKED | fields)
    assert status == 200, answer
    return answer


@pytest.fixture(scope="module")
def whole(cluster):
    return chat(cluster)


def test_what_the_model_thinks_is_apart_and_ends_with_its_budget(cluster, whole):
    message, usage = whole["choices"][0]["message"], whole["usage"]
    assert message["reasoning_content"] == message["reasoning"] != "" and message["content"]
    assert "</think>" not in message["reasoning"] + message["content"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == BUDGET + 1  # with the mark
    assert usage["completion_tokens"] == 40
    less = chat(cluster, thinking_token_budget=4)
    assert whole["choices"][0]["message"]["reasoning"].startswith(less["choices"][0]["message"]["reasoning"])
    assert less["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5
    none = chat(cluster, thinking_token_budget=0)["choices"][0]["message"]
    assert "reasoning" not in none and none["content"]


def test_the_line_of_the_page_is_answered(cluster):
    line = re.search(r"^```\n(curl .*?)^```", (ROOT / "docs/apis/reasoning.md").read_text(), re.S | re.M)[1]
    # Sampled, random weights may end their reasoning at its first token.
    line = line.replace('"reasoning_effort"', '"temperature":0,"ignore_eos":true,"max_tokens":64,"reasoning_effort"')
    assert '"temperature":0' in line
    asked = ["bash", "-c", line.replace("localhost:8000", f"127.0.0.1:{cluster.http_port}").replace("curl ", "curl -sS --fail-with-body ")]
    answer = json.loads(subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert answer["choices"][0]["message"]["reasoning"]


def test_thinking_is_turned_off_by_each_of_its_names(cluster):
    off = [chat(cluster, reasoning_effort="none"), chat(cluster, chat_template_kwargs={"enable_thinking": False})]
    assert off[0]["choices"] == off[1]["choices"] and "reasoning" not in off[0]["choices"][0]["message"]
    assert off[0]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}
    hidden = chat(cluster, include_reasoning=False)
    assert "reasoning" not in hidden["choices"][0]["message"] and hidden["usage"]["completion_tokens_details"]["reasoning_tokens"] == BUDGET + 1


def test_a_format_applies_behind_the_reasoning(cluster):
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}},
                                                                           "required": ["n"], "additionalProperties": False}}}
    message = chat(cluster, response_format=form, ignore_eos=False, max_tokens=80)["choices"][0]["message"]
    assert message["reasoning"] and isinstance(json.loads(message["content"])["n"], int)


def test_an_answer_that_is_cut_while_it_thinks_has_no_text(cluster):
    cut = chat(cluster, max_tokens=6)["choices"][0]
    assert cut["finish_reason"] == "length" and cut["message"]["content"] is None and cut["message"]["reasoning"]


def test_streams_have_the_same_and_outlive_a_killed_stage(cluster, whole):
    client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0)
    asked = {k: ASKED[k] for k in ("messages", "max_tokens", "temperature")}
    extra = {"thinking_token_budget": BUDGET, "ignore_eos": True}
    for victim in (None, "shard-0", "shard-1", "head"):
        reasoning = text = ""
        former = cluster.pids()
        for event in client.chat.completions.create(model="smollm2", stream=True, stream_options={"include_usage": True}, extra_body=extra, **asked):
            if event.usage:
                assert event.usage.completion_tokens_details.reasoning_tokens == BUDGET + 1
            for choice in event.choices:
                reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                text += choice.delta.content or ""
                if victim and reasoning:
                    cluster.kill(victim)
                    victim, killed = None, victim
                    former = {killed: former[killed]}
        message = whole["choices"][0]["message"]
        assert (reasoning, text) == (message["reasoning"], message["content"])
        if len(former) == 1:
            cluster.wait_standing(*former.items())


def test_the_thoughts_of_earlier_turns_reach_the_template(cluster):
    turns = [*ASK, {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}, *ASK]
    ids = cluster.post("/tokenize", {"messages": turns})[2]["tokens"]
    prompt = cluster.post("/detokenize", {"tokens": ids})[2]["prompt"]
    assert "<think>\n2 and 2\n</think>\n\n4" in prompt


def test_anthropics_client_reads_blocks_of_thinking(cluster, whole):
    client = anthropic.Anthropic(base_url=cluster.url, api_key="x", max_retries=0)
    asked = {"model": "smollm2", "max_tokens": 40, "messages": ASK, "extra_body": {"temperature": 0}}
    thinking = {"type": "enabled", "budget_tokens": BUDGET}
    found = client.messages.create(**asked, thinking=thinking)
    assert [b.type for b in found.content] == ["thinking", "text"]
    assert found.content[0].thinking == whole["choices"][0]["message"]["reasoning"]
    for asked_for in ({"thinking": thinking}, {}):  # the marks at the end of the prompt count
        usage = client.messages.create(**asked, **asked_for).usage
        counted = client.messages.count_tokens(model="smollm2", messages=ASK, **asked_for).input_tokens
        assert usage.input_tokens + usage.cache_read_input_tokens == counted
    with client.messages.stream(**asked, thinking=thinking) as stream:
        kinds = [e.type for e in stream if e.type in ("thinking", "signature", "text")]
        final = stream.get_final_message().content
    assert final[0] == found.content[0] and final[1].text == found.content[1].text
    assert kinds[0] == "thinking" and "signature" in kinds and kinds[-1] == "text"
    # The client sends the message back unchanged. A request without thinking gets none.
    turns = [*ASK, {"role": "assistant", "content": [b.model_dump() for b in found.content]}, *ASK]
    assert client.messages.create(**{**asked, "messages": turns}, thinking=thinking).content[0].type == "thinking"
    assert [b.type for b in client.messages.create(**asked).content] == ["text"]


def test_ollamas_client_reads_thinking(cluster):
    client = ollama.Client(host=cluster.url)
    asked = {"model": "smollm2", "messages": ASK, "options": {"temperature": 0, "num_predict": 20}}
    found = client.chat(**asked, think=True)
    assert found.message.thinking
    streamed = "".join(e.message.thinking or "" for e in client.chat(**asked, think=True, stream=True))
    assert streamed == found.message.thinking
    assert not client.chat(**asked, think=False).message.thinking
    assert client.generate(model="smollm2", prompt="How many?", think=True, options=asked["options"]).thinking == found.message.thinking


def test_responses_have_an_item_of_reasoning(cluster):
    client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0)
    asked = {"model": "smollm2", "input": "How many?", "max_output_tokens": 20, "temperature": 0}
    found = client.responses.create(**asked, reasoning={"effort": "low"})
    assert found.output[0].type == "reasoning" and found.output[0].content[0].text
    assert found.usage.output_tokens_details.reasoning_tokens == found.usage.output_tokens == 20 and found.reasoning.effort == "low"
    events = list(client.responses.create(**asked, reasoning={"effort": "low"}, stream=True))
    assert "".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == found.output[0].content[0].text
    assert events[-1].response.output[0].content == found.output[0].content
    off = client.responses.create(**asked, reasoning={"effort": "none"})
    assert [item.type for item in off.output] == ["message"] and off.output_text
    # The next request has the items of the answer.
    again = client.responses.create(model="smollm2", input=[*ASK, *[i.model_dump() for i in found.output], *ASK], max_output_tokens=4)
    assert again.usage.input_tokens > found.usage.input_tokens


def test_reasoning_comes_back_in_encrypted_content(cluster):
    """Codex stores nothing at the server, asks for this content, and sends back nothing else of an item of reasoning."""
    client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0)
    asked = {"model": "smollm2", "input": "How many?", "max_output_tokens": 20, "temperature": 0, "store": False, "include": ["reasoning.encrypted_content"],
             "reasoning": {"effort": "low", "summary": "auto"}}
    whole = client.responses.create(**asked).output[0]
    streamed = [e for e in client.responses.create(**asked, stream=True) if e.type == "response.output_item.done"][0].item
    assert whole.encrypted_content and streamed.encrypted_content == whole.encrypted_content
    assert client.responses.create(**{**asked, "include": []}).output[0].encrypted_content is None
    count = lambda **item: client.responses.create(model="smollm2", input=[*ASK, {"type": "reasoning", "summary": [], **item}, *ASK], max_output_tokens=1).usage.input_tokens
    full = count(content=[{"type": "reasoning_text", "text": whole.content[0].text}])
    assert count(encrypted_content=whole.encrypted_content) == full > count(encrypted_content="of another server")


def test_a_model_that_does_not_think_refuses_it_by_name(shared):
    for route, fields, param in (("/v1/chat/completions", {"reasoning_effort": "low"}, "reasoning_effort"),
                                 ("/v1/chat/completions", {"thinking_token_budget": 5}, "thinking_token_budget")):
        status, _, answer = shared.post(route, {"messages": ASK, "max_tokens": 4} | fields)
        assert status == 400 and answer["error"]["param"] == param, answer
    for fields, expected in (({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 400), ({"output_config": {"effort": "low"}}, 400),
                             ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, 200)):
        status, _, answer = shared.post("/v1/messages", {"model": "smollm2", "max_tokens": 4, "messages": ASK} | fields)
        assert status == expected and ("does not reason" in answer["error"]["message"] if status == 400 else answer["content"]), answer
    assert Stream(shared, "Hi", max_tokens=4, reasoning_effort="none").check().text


def test_a_terminal_shows_the_reasoning_apart_from_the_answer(cluster, tmp_path):
    home = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    kept = tmp_path / "kept.json"
    with terminal(home, "chat", "--endpoint", cluster.door, "--temperature", "0", "--max-tokens", "40") as t:
        t.until(r"> $")
        t.type(f"/set thinking {BUDGET}\r")
        t.until(f"thinking is {BUDGET}")
        t.type("How many?\r")
        shown = t.until(r"tokens/s\)")
        assert re.search(r"\x1b\[2m.+\x1b\[0m\r\n\r\n.", shown, re.S) and "</think>" not in shown, shown
        t.type("/set thinking hide\rHow many?\r")
        assert "\x1b[2m" not in t.until(r"tokens/s\)|cut after")
        t.type(f"/save {kept}\r/exit\r")
        assert t.end() == 0
    first = json.loads(kept.read_text())["messages"][1]
    assert first["reasoning_content"] and first["content"] and "</think>" not in first["content"]


def test_a_pipe_gets_the_answer_alone(cluster):
    done = subprocess.run([CLUSTER, "chat", "--endpoint", cluster.door, "--temperature", "0", "--max-tokens", "20", "How many?"], capture_output=True, text=True,
                          timeout=60, check=True)
    assert done.stdout == "\n"  # without a bound it thinks to the end
