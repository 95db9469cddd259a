"""The web page in a real browser: what it shows, a chat, Stop, and a shard or the gateway that dies under it."""
import pytest
from browser import browser, find_chromium

pytestmark = pytest.mark.skipif(not find_chromium(), reason="no chromium")


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


def ask(page, question):
    page.type(question)
    page.press("Enter")


def answer(page):
    return page.text(".assistant:last-of-type") or page.value("[...document.querySelectorAll('.assistant')].at(-1)?.textContent")


def notes(page):
    return page.text("#talk .note")


def test_a_chat_on_the_page(shared, page):
    page.open(shared.url)
    page.until(lambda: page.text("#phase") == "ready")
    assert page.text("#model").startswith("smollm2 · llama · 135 M parameters")
    page.until(lambda: page.text("#nodes").count("ready") >= 4)  # gateway, head, agent, two shards
    ask(page, "What is the capital of France?")
    page.until(lambda: page.text("#send") == "Stop" or notes(page))
    page.until(lambda: "per second" in notes(page))
    assert len(answer(page)) > 1 and page.text("#send") == "Send"
    page.until(lambda: "stage 1" in page.text("#stages"))  # its load is a difference of two looks
    assert page.complaints == []


def test_stop_ends_the_stream_and_frees_its_place(shared, page):
    page.open(shared.url)
    page.until(lambda: page.text("#phase") == "ready")
    ask(page, "Write a very long story about a river.")
    page.until(lambda: len(answer(page) or "") > 40)
    page.value("document.getElementById('send').click()")
    page.until(lambda: "stopped" in notes(page))
    page.until(lambda: "open requests\n0" in page.text("#numbers").replace("\t", "\n"))
    assert page.complaints == []


def test_a_dead_shard_is_shown_and_the_answer_goes_on(fresh, page):
    page.open(fresh.url)
    page.until(lambda: page.text("#phase") == "ready")
    ask(page, "Write a very long story about a river.")
    before = page.until(lambda: len(answer(page) or "") > 40 and answer(page))
    fresh.kill("shard-1")
    page.until(lambda: "1 restarts" in page.text("#nodes"))
    page.until(lambda: page.text("#phase") == "ready")
    after = page.until(lambda: len(answer(page)) > len(before) + 40 and answer(page))
    assert after.startswith(before)
    page.value("document.getElementById('send').click()")
    page.until(lambda: "stopped" in notes(page) or "per second" in notes(page))  # on a slow machine it has ended by itself
    assert page.complaints == []


def test_an_answer_goes_on_in_its_bubble_when_the_gateway_is_killed(fresh, page):
    page.open(fresh.url)
    page.until(lambda: page.text("#phase") == "ready")
    ask(page, "Write a very long story about a river.")
    before = page.until(lambda: len(answer(page) or "") > 40 and answer(page))
    page.value("window.noted = ''; new MutationObserver(() => noted += document.getElementById('talk').innerText)"
               ".observe(document.getElementById('talk'), {childList: true})")
    fresh.kill("gateway")
    page.until(lambda: "connection lost, waiting" in page.value("noted"))
    after = page.until(lambda: len(answer(page)) > len(before) + 40 and answer(page))
    assert after.startswith(before)
    assert page.value("document.querySelectorAll('.assistant').length") == 1
    assert "waiting" not in notes(page)
    page.value("document.getElementById('send').click()")
    page.until(lambda: "stopped" in notes(page) or "per second" in notes(page))
    page.until(lambda: page.text("#send") == "Send")
    assert fresh.metric("baton_requests_resumed_total") == 1
    assert [c for c in page.complaints if c.get("source") != "network"] == []  # nobody listened for a while
    page.complaints.clear()
