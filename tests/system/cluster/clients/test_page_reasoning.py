"""The web page shows the reasoning of a model apart from its answer, and folds it away."""
import json

import pytest
from browser import browser, find_chromium
from harness import running
from marked_model import marked_model
from page_words import Visitor

pytestmark = pytest.mark.skipif(not find_chromium(), reason="no chromium")

# The prompt has the first mark. With random weights the model does not write the second one.
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n<think>\n{% if false %}</think>{% endif %}"
THINK = {"open": "<think>", "close": "</think>", "begun": False}
BEGUN = THINK | {"begun": True}
CHANNELS = {"open": "<|channel|>analysis<|message|>", "close": "<|end|>", "begun": False, "next": "<|start|>assistant", "answer": "<|channel|>final<|message|>"}
# marks, text, is it over, reasoning, answer
CASES = [
    (None, "<think>a</think>b", True, "", "<think>a</think>b"),
    (THINK, "plain", False, "", "plain"),
    (THINK, "\n<thi", False, "", ""),
    (THINK, "<thi", True, "", "<thi"),
    (THINK, "<think>\nso", False, "so", ""),
    (THINK, "<think>so</thi", False, "so", ""),
    (THINK, "<think>so</thi", True, "so</thi", ""),
    (THINK, "<think>so\n</think>\n\nan", False, "so", "an"),
    (THINK, "<think>a</think>b</think>", True, "a", "b</think>"),
    (BEGUN, "so", False, "so", ""),
    (BEGUN, "so</think>an", False, "so", "an"),
    (CHANNELS, "<|channel|>analysis<|message|>so<|end|><|start|>assis", False, "so", ""),
    (CHANNELS, "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>final<|message|>an", False, "so", "an"),
    (CHANNELS, "<|channel|>final<|message|>an", True, "", "an"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running(path=marked_model(tmp_path_factory.mktemp("thinks"), [THINK["open"], THINK["close"]], TEMPLATE, are_control=False)) as c:
        yield c


def test_the_parts_of_each_text(cluster):
    with browser() as page:
        page.open(cluster.url)
        for marks, text, is_over, reasoning, answer in CASES:
            asked = ",".join(json.dumps(x) for x in (text, marks, is_over))
            parts = page.promised(f"import('/page/reasoning.js').then(r => r.parts_of({asked}))")
            assert parts == {"reasoning": reasoning, "text": answer}, (marks, text)


def test_a_growing_text_takes_nothing_back(cluster):
    with browser() as page:
        page.open(cluster.url)
        for marks, text, *_ in CASES:
            if marks:
                starts = page.promised(f"import('/page/reasoning.js').then(r => [...{json.dumps(text)}].map((_, n) => r.parts_of({json.dumps(text)}.slice(0, n + 1), {json.dumps(marks)}, false)))")
                for before, then in zip(starts, starts[1:]):
                    assert then["reasoning"].startswith(before["reasoning"]) and then["text"].startswith(before["text"]), (marks, text)


def test_reasoning_is_folded_away_and_survives_a_reload(cluster):
    with browser() as page:
        visitor = Visitor(page, cluster.url)
        visitor.open(temperature=0, max_tokens=60)
        visitor.ask("How many?")
        page.until(lambda: "cut at max_tokens" in visitor.note)
        read = ("(t => t && [t.querySelector('.reasoning').hidden, t.querySelector('.reasoning').open, t.querySelector('.reasoning div').textContent.length > 20,"
                " t.querySelector('.text').textContent])(document.querySelector('.assistant'))")
        assert page.value(read) == [False, False, True, ""]
        page.reload()
        page.until(lambda: page.value(read) == [False, False, True, ""])
        assert page.complaints == []
