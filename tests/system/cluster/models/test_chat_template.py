"""A request's template variables give the prompt of transformers' apply_chat_template (tests/data/template/make_apply_goldens.py). The
template knows the time; an unusable template is reported with its line."""
import datetime
import json
import shutil
import subprocess
import urllib.request

import pytest
from harness import CLUSTER, ROOT, running

MODEL = ROOT / "tests/data/model/checkpoint"
TEMPLATES = ROOT / "tests/data/template"
ROWS = json.loads((TEMPLATES / "apply.json").read_text())
ASK = [{"role": "user", "content": "Hi"}]
CLOCK = ("{% block time scoped %}{% for group in [1, 2, 3] | slice(2) %}{% set ns = namespace(n=0) %}{% endfor %}"
         "{{ strftime_now('%Y-%m-%d') }}|{% endblock %}{% for m in messages %}{{ m.content }}{% endfor %}")


def model_with(directory, template):
    copy = shutil.copytree(MODEL, directory / "model")
    (copy / "chat_template.jinja").write_text(template)
    return copy


def serve(tmp_path_factory, template):
    return running(path=model_with(tmp_path_factory.mktemp("template"), template))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serve(tmp_path_factory, (TEMPLATES / "apply/everything.jinja").read_text()) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    with serve(tmp_path_factory, CLOCK) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    with serve(tmp_path_factory, "{{ messages[0].content }}\n\n{% include 'other' %}") as cluster:
        yield cluster


def text_of(cluster, body):
    status, _, reply = cluster.post("/tokenize", body)
    assert status == 200, reply
    return cluster.post("/detokenize", {"tokens": reply["tokens"]})[2]["prompt"]


@pytest.mark.parametrize("row", [r for r in ROWS if r["template"] == "everything"], ids=lambda row: "-".join(row["fields"]))
def test_a_prompt_is_that_of_transformers(served, row):
    fields = row["fields"] | {"messages": [m | {"tool_calls": [c | {"function": c["function"] | {
        "arguments": json.dumps(c["function"]["arguments"])}} for c in m["tool_calls"]]} if "tool_calls" in m else m for m in row["fields"]["messages"]]}
    status, _, reply = served.post("/tokenize", fields)
    assert status == 200, reply
    assert reply["tokens"] == row["ids"], text_of(served, fields)
    status, _, answer = served.post("/v1/chat/completions", fields | {"max_tokens": 1})
    assert status == 200, answer
    assert answer["usage"]["prompt_tokens"] == len(row["ids"])


def test_an_answer_goes_on_with_the_last_message(served):
    begun = {"messages": [*ASK, {"role": "assistant", "content": "he"}], "continue_final_message": True, "max_tokens": 8, "temperature": 0}
    status, _, answer = served.post("/v1/chat/completions", begun)
    assert status == 200, answer
    prompt = text_of(served, {k: begun[k] for k in ("messages", "continue_final_message")})
    ids = served.post("/tokenize", {"messages": begun["messages"], "continue_final_message": True})[2]["tokens"]
    assert prompt.endswith("assistant\nhe")
    status, _, completion = served.post("/v1/completions", {"prompt": ids, "max_tokens": 8, "temperature": 0})
    assert completion["choices"][0]["text"] == answer["choices"][0]["message"]["content"]


@pytest.mark.parametrize("fields, code, param", [
    ({"chat_template_kwargs": {"messages": []}}, "invalid_value", "chat_template_kwargs"),
    ({"chat_template_kwargs": {"eos_token": "x"}}, "invalid_value", "chat_template_kwargs"),
    ({"continue_final_message": True, "add_generation_prompt": True}, "invalid_value", "continue_final_message"),
    ({"chat_template": "{{ messages }}"}, "unsupported_parameter", "chat_template")])
def test_what_a_template_is_not_given_is_refused_by_its_name(served, fields, code, param):
    for path in ("/v1/chat/completions", "/tokenize"):
        status, _, reply = served.post(path, {"messages": ASK, **fields})
        assert (status, reply["error"]["code"], reply["error"]["param"]) == (400, code, param), reply


def test_documents_that_a_template_does_not_read_are_refused(clock):
    status, _, reply = clock.post("/v1/chat/completions", {"messages": ASK, "documents": [{"text": "a"}]})
    assert (status, reply["error"]["code"], reply["error"]["param"]) == (400, "unsupported_parameter", "documents"), reply


def test_a_template_knows_the_time(clock):
    today = lambda: datetime.datetime.now().strftime("%Y-%m-%d")
    before = today()
    text = text_of(clock, {"messages": ASK})
    assert text in (f"{before}|Hi", f"{today()}|Hi")
    status, _, answer = clock.post("/v1/chat/completions", {"messages": ASK, "max_tokens": 1})
    assert status == 200, answer
    assert answer["usage"]["prompt_tokens"] == len(clock.post("/tokenize", {"messages": ASK})[2]["tokens"])


def test_a_template_that_cannot_be_used_is_told_with_its_line(broken):
    for path in ("/v1/chat/completions", "/tokenize"):
        status, _, reply = broken.post(path, {"messages": ASK})
        message = reply["error"]["message"]
        assert (status, reply["error"]["code"]) == (400, "template_failed"), reply
        assert "no chat template" not in message and "'include'" in message and "line 3" in message, message
    with urllib.request.urlopen(broken.url + "/cluster", timeout=10) as answer:
        card = json.load(answer)["models"][0]
    assert not card["has_chat_template"] and "line 3" in card["chat_template_failure"]
    assert broken.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200


def test_inspect_says_which_line_of_a_template_cannot_be_used(tmp_path):
    model = model_with(tmp_path, "a\n{{ x | pprint }}")
    inspect = lambda *words: subprocess.run([CLUSTER, "model", "inspect", model, *words], capture_output=True, text=True, timeout=60, cwd=ROOT)
    out = inspect()
    assert out.returncode == 0 and "cannot be used: the filter 'pprint'" in out.stdout and "line 2" in out.stdout, out
    reply = json.loads(inspect("--json").stdout)["tokenizer"]
    assert not reply["has_chat_template"] and "line 2" in reply["chat_template_failure"]
