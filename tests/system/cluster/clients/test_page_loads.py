"""The web page of models on demand: which are loaded, and buttons that load and unload them."""
import pytest
from browser import browser, find_chromium
from harness import MODEL, running

pytestmark = pytest.mark.skipif(not find_chromium(), reason="no chromium")

TABLES = "".join(f'[[models]]\nname = "{name}"\npath = "{MODEL}"\nkv_cache_bytes = "64MiB"\nmax_model_len = 1024\nload = "on-demand"\n' for name in ("one", "two"))


def states(page):
    return page.value("Object.fromEntries([...document.querySelectorAll('#loads-rows tr')].map(r => [r.cells[0].textContent, r.cells[1].textContent]))")


def press(page, label):
    page.value(f"document.querySelector('#loads button[aria-label=\"{label}\"]').click()")


def test_models_are_loaded_and_unloaded_on_the_page():
    with running(devices=("cpu:0",), cluster="max_loaded_models = 1", models=TABLES) as cluster, browser() as page:
        page.look(1400, 860)
        page.open(cluster.url)
        page.until(lambda: page.text("#phase") == "ready" and states(page) == {"one": "not loaded", "two": "not loaded"})
        assert page.value("document.querySelectorAll('#pictures svg').length") == 0
        press(page, "Load two")
        page.until(lambda: states(page)["two"].startswith("loaded · 1 load, last "))
        assert page.value("document.querySelectorAll('#pictures svg').length") == 1
        assert "pipeline 1 · two · ready" in page.text("#pictures h3") and "two is ready" in page.text("#picture-words")
        press(page, "Load one")  # which makes room
        page.until(lambda: states(page)["one"].startswith("loaded") and states(page)["two"].startswith("not loaded"))
        assert states(page)["two"].endswith(" · 1 eviction")
        press(page, "Unload one")
        page.until(lambda: states(page)["one"].startswith("not loaded"))
        assert page.text("#loads-note") == "" and page.complaints == []


def test_a_load_that_is_refused_says_why():
    pinned = TABLES.replace('name = "one"', 'name = "one"\npin = true', 1)
    with running(devices=("cpu:0",), cluster="max_loaded_models = 2", models=pinned) as cluster, browser() as page:
        page.look(390, 780)
        page.open(cluster.url)
        page.until(lambda: states(page).get("one", "").startswith("loaded"))
        press(page, "Unload one")
        page.until(lambda: page.text("#loads-note").startswith("one: "))
        assert "pinned" in page.text("#loads-note")


def test_a_model_that_is_always_loaded_has_no_row(shared):
    with browser() as page:
        page.open(shared.url)
        page.until(lambda: page.text("#phase") == "ready" and page.text("#numbers-title") == "Tokens per second")
        assert page.value("document.getElementById('loads').hidden")
