"""The web page's first view: the model, prompts to click, lines that call the API; and the page behind a reverse proxy."""
import os
import subprocess
import sys

import pytest
from browser import find_chromium
from page_words import Visitor
from reverse_proxy import reverse_proxy
from test_page import page, quiet, visitor  # noqa: F401

pytestmark = pytest.mark.skipif(not find_chromium(), reason="no chromium")

RUN_SECONDS_MAX = 120


def test_an_empty_conversation_names_the_model_and_a_prompt_fills_and_sends(page, visitor):  # noqa: F811
    visitor.open(temperature=0, max_tokens=12)
    assert page.text("#welcome h2") == "smollm2" and page.value("document.activeElement.id") == "text"
    prompts = page.value("[...document.querySelectorAll('#prompts button')].map(b => b.textContent)")
    assert 3 <= len(prompts) <= 4
    page.click("#prompts li:last-child button")
    assert page.value("document.getElementById('welcome')") is None and page.text(".user .text") == prompts[-1]
    assert page.value("document.activeElement.id") == "text" and page.value("document.getElementById('text').value") == ""
    assert visitor.wait_end()
    page.press("n", "KeyN", alt=True)
    assert page.text("#welcome h2") == "smollm2"
    visitor.ask("Say one.")
    assert page.value("document.getElementById('welcome')") is None
    visitor.wait_end()


def test_the_lines_that_call_the_api_can_be_pasted(shared, page, visitor):  # noqa: F811
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    visitor.open()
    page.until(lambda: page.text("#api-lines"))
    # The only change to the lines: a sampled answer may be long.
    for tab, run, few in (("curl", ["bash", "-c"], '"max_tokens":16,"messages":'), ("python", [sys.executable, "-c"], "max_tokens=16, messages=")):
        assert page.value(f"document.getElementById('api-tab-{tab}').ariaSelected") == "true"
        lines = page.value("document.getElementById('api-lines').textContent")
        assert shared.url in lines and "smollm2" in lines
        page.click("#api [aria-label='Copy these lines']")
        page.until(lambda: page.promised("navigator.clipboard.readText()") == lines)
        asks = few.split("16,")[1].strip()
        assert lines.count(asks) == 1
        bounded = lines.replace(asks, few)
        done = subprocess.run([*run, bounded], capture_output=True, text=True, timeout=RUN_SECONDS_MAX, env={**os.environ, "NO_PROXY": "*"})
        assert done.returncode == 0 and len(done.stdout) > 5 and "error" not in done.stdout, done
        page.value(f"document.getElementById('api-tab-{tab}').focus()")
        page.press("ArrowRight")
        assert page.value("document.activeElement.id") == ("api-tab-python" if tab == "curl" else "api-tab-curl")


def test_the_lines_name_the_chosen_model_and_quote_it(page, visitor):  # noqa: F811
    visitor.open()
    page.until(lambda: page.text("#api-lines"))
    name = "it's \"b\""
    lines = page.promised(f"import('/page/welcome.js').then(w => (w.offer(['a', {name!r}], {name!r}), document.getElementById('api-lines').textContent))")
    body = subprocess.run(["bash", "-c", f"curl() {{ printf '%s' \"${{@: -1}}\"; }}; {lines}"], capture_output=True, text=True, timeout=10).stdout
    assert body == '{"model":"it\'s \\"b\\"","messages":[{"role":"user","content":"Hello!"}]}'


@pytest.mark.parametrize("path", ["/", "/models/baton/"])
def test_the_page_behind_a_reverse_proxy(shared, page, path):  # noqa: F811
    with reverse_proxy(shared.http_port, path) as port:
        url = f"http://chat.localhost:{port}{path}"
        visitor = Visitor(page, url).open(temperature=0, max_tokens=12)  # noqa: F811
        assert f"curl {url}v1/chat/completions" in page.until(lambda: page.text("#api-lines"))
        visitor.ask("Say one.")
        assert visitor.wait_end() and "12 tokens" in visitor.note
        page.open("about:blank")
    quiet(page)


def test_a_reverse_proxy_that_hides_the_host_is_named_as_the_cause(shared, page):  # noqa: F811
    with reverse_proxy(shared.http_port, host=f"127.0.0.1:{shared.http_port}") as port:
        visitor = Visitor(page, f"http://chat.localhost:{port}/").open(temperature=0, max_tokens=12)  # noqa: F811
        visitor.ask("Say one.")
        page.until(lambda: "websocket_refused" in visitor.note)
        assert "reverse proxy" in visitor.note and "Host" in visitor.note
        page.open("about:blank")
    assert page.complaints and all("WebSocket" in c["text"] for c in page.complaints), page.complaints
    page.complaints.clear()
