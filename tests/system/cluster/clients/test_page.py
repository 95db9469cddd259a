"""The web page in a real browser: what it shows and does, and stages, gateways and the page itself lost under it."""
import json
import time

import pytest
from browser import browser, find_chromium
from page_words import Visitor

pytestmark = pytest.mark.skipif(not find_chromium(), reason="no chromium")

STORY = "Write a very long story about a river."
GREEDY = {"temperature": 0, "max_tokens": 150}


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        opened.call("Accessibility.enable")
        opened.before_load("window.violations = []; document.addEventListener('securitypolicyviolation', e => violations.push(e.violatedDirective + ' ' + e.blockedURI))")
        yield opened


@pytest.fixture
def visitor(shared, page):
    yield Visitor(page, shared.url)
    quiet(page)


def quiet(page):
    """No exception, nothing blocked by the content policy, and no missing file."""
    assert page.complaints == [] and page.value("window.violations ?? []") == []


def undisturbed(cluster, **fields):
    body = {"model": "smollm2", "messages": [{"role": "user", "content": STORY}], "temperature": 0, "max_tokens": 150, **fields}
    return cluster.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"]


def test_a_chat_and_its_picture(shared, page, visitor):
    visitor.open(**GREEDY)
    assert page.text("#model").startswith("smollm2 · llama · 135 M parameters")
    assert page.value("[...document.querySelectorAll('#pictures g[data-name] .name')].map(e => e.textContent)") == ["head ✓", "stage 0", "stage 1"]
    assert page.text("#pictures .node") == "node a"
    assert "Stage 1 on node a: shard-1 ready." in page.value("document.getElementById('picture-words').textContent")
    visitor.ask(STORY)
    page.until(lambda: "in flight" in page.text("#pictures .caption") and "steps/s" in page.text("#pictures .caption"))
    assert page.value("document.querySelectorAll('#pictures .dots circle').length") >= 1
    assert visitor.wait_end() == undisturbed(shared)
    assert "150 tokens" in visitor.note and "tokens/s" in visitor.note and "cut" in visitor.note
    rows = page.value("[...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.textContent))")
    assert {r[0] for r in rows} == {"gateway", "head", "agent-a", "shard-0", "shard-1"}
    on, computes = next(r for r in rows if r[0] == "shard-1")[2:4]
    assert on == "a, cpu:1" and computes.startswith("stage 1: layers ")


def test_micro_batches_move_unless_the_visitor_wants_rest(page, visitor):
    visitor.open(**{**GREEDY, "max_tokens": 400})
    where = "document.querySelector('#pictures .dots circle')?.getAttribute('transform')"
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page.look(motion=motion)
        visitor.ask(STORY)
        page.until(lambda: page.value(where))
        visitor.wait_begun()
        seen = {page.value(where) for _ in range(12) if not time.sleep(0.05)} - {None}
        assert (len(seen) > 3) == moves, (motion, seen)
        page.press("Escape")
        page.until(lambda: "stopped" in visitor.note)
        page.press("n", "KeyN", alt=True)


def test_stop_ends_the_stream_and_frees_its_place(shared, page, visitor):
    visitor.open(temperature=0, max_tokens=2000)
    visitor.ask(STORY)
    visitor.wait_begun()
    page.click("#send")
    page.click("#operators summary")
    page.until(lambda: "stopped" in visitor.note and page.text("#send") == "Send")
    page.until(lambda: page.text("#count-open-requests") == "0")
    kept = visitor.answer
    time.sleep(0.3)
    assert visitor.answer == kept


def test_answers_are_made_again_and_questions_changed_and_what_was_is_kept(page, visitor):
    visitor.open(temperature=1, max_tokens=12)
    visitor.ask("Name a colour.")
    visitor.wait_end()
    first = visitor.answer
    visitor.act("Regenerate")
    page.until(lambda: "2 / 2" in page.text(".version"))
    visitor.wait_end()
    second = visitor.answer
    visitor.act("Previous version")
    page.until(lambda: "1 / 2" in page.text(".version"))
    assert visitor.answers == [first]
    visitor.ask("And another one.")
    page.until(lambda: len(visitor.answers) == 2)
    visitor.wait_end()
    visitor.act("Regenerate", last=False)  # of the first answer: the second question belongs to the one before
    page.until(lambda: "3 / 3" in page.text(".version") and len(visitor.answers) == 1)
    visitor.wait_end()
    visitor.act("Previous version")
    page.until(lambda: "2 / 3" in page.text(".version"))
    assert visitor.answers == [second]
    visitor.act("Edit")
    assert page.value("document.getElementById('text').value") == "Name a colour." and page.text("#send") == "Send again"
    page.value("document.getElementById('text').value = ''")
    visitor.ask("Name a bird.")
    page.until(lambda: "2 / 2" in page.text(".user .version"))
    visitor.wait_end()
    visitor.act("Previous version", last=False)
    page.until(lambda: "Name a colour." in page.text(".user .text"))


def test_conversations_live_through_a_reload(page, visitor):
    visitor.open(temperature=0, max_tokens=8)
    visitor.ask("Say one.")
    one = visitor.wait_end()
    page.press("n", "KeyN", alt=True)
    visitor.ask("Say two.")
    visitor.wait_end()
    page.reload()
    visitor.wait_standing()
    titles = "[...document.querySelectorAll('#conversations .title')].map(e => e.textContent)"
    assert page.value(titles) == ["Say two.", "Say one."]
    page.value("document.querySelectorAll('#conversations .title')[1].click()")
    assert visitor.answer.strip() == one.strip()
    page.click("#conversations li:last-child [aria-label^=Rename]")
    page.value("document.querySelector('#conversations input').value = ''")
    page.type("The first")
    page.press("Enter")
    assert page.value(titles) == ["Say two.", "The first"]
    page.click("#conversations li:last-child [aria-label^=Delete]")
    assert page.value(titles) == ["Say two."]
    page.click("#undo button")
    assert page.value(titles)[-1] == "The first"
    page.click("#conversations li:first-child [aria-label^=Delete]")
    page.reload()
    visitor.wait_standing()
    assert page.value(titles) == ["The first"]


def test_an_answer_goes_on_after_a_reload_with_the_same_text(shared, page, visitor):
    visitor.open(**GREEDY)
    visitor.ask(STORY)
    visitor.wait_begun()
    for _ in range(2):
        page.reload()
        visitor.wait_standing()
        page.until(lambda: visitor.answer)
    assert visitor.wait_end() == undisturbed(shared)
    assert len(visitor.answers) == 1


def test_settings_are_what_is_asked_with(shared, page, visitor):
    visitor.open()
    page.press("s", "KeyS", alt=True)
    assert page.value("document.querySelector('#settings').open")
    for name, value in (("temperature", "1.5"), ("top_k", "40"), ("min_p", "0.02"), ("max_tokens", "9"), ("seed", "7"), ("system", "You are a pirate.")):
        page.value(f"(i => {{ i.value = '{value}'; i.dispatchEvent(new Event('change')); }})(document.getElementById('set-{name}'))")
    for name, bad in (("temperature", "2.5"), ("top_p", "0"), ("max_tokens", "1.5"), ("min_p", "-1")):
        page.value(f"(i => {{ i.value = '{bad}'; i.dispatchEvent(new Event('change')); }})(document.getElementById('set-{name}'))")
        assert page.value(f"document.getElementById('set-{name}').ariaInvalid") == "true", name
    page.press("Escape")
    visitor.ask(STORY)
    output = visitor.wait_end()
    body = {"messages": [{"role": "system", "content": "You are a pirate."}, {"role": "user", "content": STORY}], "temperature": 1.5, "top_k": 40,
            "min_p": 0.02, "max_tokens": 9, "seed": 7}
    assert output == shared.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"]
    page.value("import('/page/settings.js').then(s => s.reset())")
    page.until(lambda: page.value("document.getElementById('set-temperature').value") == "")


def test_copying_an_answer_and_its_code(page, visitor):
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    text = "Look:\n\n```py\nprint('<b>')\n```\nDone."
    visit_with(visitor, text)
    visitor.act("Copy")
    page.until(lambda: page.value("document.getElementById('spoken').textContent") == "copied")
    assert page.promised("navigator.clipboard.readText()") == text
    page.click(".code button")
    page.until(lambda: page.promised("navigator.clipboard.readText()") == "print('<b>')")


def visit_with(visitor, text):
    """Stores a conversation whose answer is this text."""
    turns = {"q": {"id": "q", "parent": "", "role": "user", "text": "<img src=x onerror=alert(1)>"},
             "a": {"id": "a", "parent": "q", "role": "assistant", "text": text, "state": "done", "tokens": 3}}
    kept = {"id": "k", "title": "<b>kept</b>", "updated": 1, "chosen": {"": "q", "q": "a"}, "turns": turns}
    visitor.open()
    visitor.page.value(f"localStorage.setItem('baton.conversation.k', {json.dumps(json.dumps(kept))})")
    visitor.page.reload()
    visitor.wait_standing()
    visitor.page.until(lambda: visitor.answers)


def test_hostile_text_stays_text(page, visitor):
    text = ("<script>window.owned = 1</script> <img src=x onerror='window.owned = 1'> [a](javascript:alert(1))\n\n# <b>x</b>\n\n- <i>y</i>\n\n"
            "```\n</code></pre><script>window.owned = 1</script>\n```\n\n" + "w" * 4000 + "\n\n**`" + "`" * 3000 + "*" * 3000)
    visit_with(visitor, text)
    page.look(width=360, height=740)
    assert page.value("document.querySelectorAll('#talk script, #talk img, #talk b, #talk i, #talk a, #conversations b').length") == 0
    assert page.value("window.owned") is None
    for piece in ("<script>window.owned = 1</script>", "<img src=x", "[a](javascript:alert(1))", "<b>x</b>", "</code></pre><script>"):
        assert piece in visitor.answer, piece
    assert page.text(".user .text") == "<img src=x onerror=alert(1)>"
    assert page.value("document.documentElement.scrollWidth") == 360
    assert page.value("document.getElementById('talk').scrollWidth <= document.getElementById('talk').clientWidth")


def test_a_phone_has_both_views_and_no_sideways_scrolling(page, visitor):
    visitor.open()
    page.look(width=360, height=740)
    shown = "['chat', 'cluster'].map(id => document.getElementById(id).offsetParent !== null)"
    fits = "document.documentElement.scrollWidth <= 360 && document.getElementById('cluster').scrollWidth <= document.getElementById('cluster').clientWidth"
    assert page.value(shown) == [True, False] and page.value(fits)
    page.click("#view-cluster")
    assert page.value(shown) == [False, True] and page.value(fits)
    page.click("#drawer")
    assert page.value("document.getElementById('shelf').offsetWidth") > 200 and page.value(fits)
    page.press("Escape")
    page.press("p", "KeyP", alt=True)
    assert page.value(shown) == [True, False]
    page.press("s", "KeyS", alt=True)
    assert page.value("document.getElementById('settings').getBoundingClientRect().right") <= 360
    page.press("Escape")
    page.click("#view-chat")
    assert page.value("document.getElementById('welcome').getBoundingClientRect().right <= 360") and page.value(fits)


def test_operators_numbers_are_folded_away(page, visitor):
    visitor.open()
    shown = "['meters', 'numbers'].map(id => document.getElementById(id).checkVisibility())"
    page.until(lambda: page.value("document.getElementById('count-restarts')?.textContent"))
    assert page.value(shown) == [False, False] and page.text("#rate-now")
    page.click("#operators summary")
    assert page.value(shown) == [True, True]
    assert page.text("#meters label") == "Requests running\nKV cache in use"
    labels = page.text("#numbers dt").split("\n")
    assert {"Open requests", "Prompt tokens found in the prefix cache", "Processes restarted"} <= set(labels)
    assert all(len(label) > 8 and label[0].isupper() for label in labels)


def test_the_view_of_the_cluster_has_a_larger_picture(page, visitor):
    visitor.open()
    width = "document.querySelector('#pictures [data-name=head] .name').getBoundingClientRect().height"
    beside = page.value(width)
    page.look(width=1400, height=860)
    page.press("p", "KeyP", alt=True)
    page.until(lambda: page.value(width) > 1.5 * beside)
    assert page.value("document.getElementById('chat').offsetParent") is None
    assert page.value("document.getElementById('cluster').scrollWidth <= document.getElementById('cluster').clientWidth")
    assert page.value("document.getElementById('view-cluster').ariaSelected") == "true"
    page.press("n", "KeyN", alt=True)  # a new conversation opens the chat
    page.until(lambda: page.value("document.getElementById('chat').offsetParent !== null"))


def test_every_control_has_a_name_and_the_keyboard_reaches_it(page, visitor):
    visitor.open()
    assert {("tab", "curl"), ("tab", "Python"), ("button", "Copy these lines")} <= set(page.controls())
    assert all(name.strip() for _, name in page.controls())
    visit_with(visitor, "Some `code`:\n\n```\nx\n```\n\n[a link](https://example.org)")
    for dialog in (None, "settings", "help"):
        if dialog:
            page.value(f"document.getElementById('{dialog}').showModal()")
        controls = page.controls()
        assert controls and all(name.strip() for _, name in controls), controls
        if dialog:
            page.press("Escape")
    page.value("document.activeElement.blur()")
    reached = set()
    for _ in range(40):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.add(page.value("(document.activeElement.id || document.activeElement.ariaLabel || document.activeElement.textContent).slice(0, 30)"))
        assert page.value("document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'")
    assert {"open-settings", "open-help", "new", "text", "talk", "Copy", "Edit", "Regenerate", "Copy this code", "a link", "Rename “<b>kept</b>”"} <= reached, reached
    page.value("document.activeElement.blur()")
    page.press("?")
    assert "Alt+N" in page.text("#help[open]")
    page.press("Escape")
    page.press("/")
    assert page.value("document.activeElement.id") == "text"


CONTRAST = '''(() => {
    const parse = c => { const n = c.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
    const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
    const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
    const out = [];
    for (const e of document.body.querySelectorAll('*')) {
        const says = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!says || !e.getClientRects().length || e.closest('.hidden-text, .skip, :disabled')) continue;
        const style = getComputedStyle(e), is_svg = e instanceof SVGElement;
        const box = is_svg && e.parentNode.querySelector('rect.box');
        const back = box ? parse(getComputedStyle(box).fill) : behind(e);
        const [a, b] = [light(parse(is_svg ? style.fill : style.color)), light(back)];
        out.push([(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.className.baseVal ?? e.className, e.textContent.slice(0, 30)]);
    }
    return out;
})()'''


def test_text_stands_out_in_light_and_dark(page, visitor):
    for scheme in ("light", "dark"):
        visitor.open()
        page.look(scheme=scheme)
        page.until(lambda: page.text("#api-lines"))
        assert [s for s in page.value(CONTRAST) if s[0] < 4.5] == []
        visit_with(visitor, "Some `code` and **bold** [link](https://example.org):\n\n> quoted\n\n```\nx\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
        page.look(scheme=scheme)
        page.value("document.getElementById('operators').open = true")
        page.value("import('/page/events.js').then(e => ['good', 'wait', 'bad'].forEach(kind => e.show_event({what: kind, kind})))")
        page.until(lambda: page.text("#events .bad"))
        seen = page.value(CONTRAST)
        assert len(seen) > 40 and [s for s in seen if s[0] < 4.5] == []
        backs = page.value("getComputedStyle(document.body).backgroundColor")
        assert (backs == "rgb(255, 255, 255)") == (scheme == "light")


def test_an_idle_page_asks_seldom(shared, page, visitor):
    visitor.open()
    asked = lambda: page.value("performance.getEntriesByType('resource').filter(e => e.name.endsWith('/cluster')).length")  # noqa: E731
    time.sleep(0.5)
    before = asked()
    time.sleep(2.5)
    assert 1 <= asked() - before <= 4


def test_a_killed_stage_is_shown_and_the_answer_goes_on_with_the_same_text(fresh, page):
    whole = undisturbed(fresh, max_tokens=250)
    visitor = Visitor(page, fresh.url).open(temperature=0, max_tokens=250)
    page.value("window.rings = 0; new MutationObserver(all => rings += all.flatMap(m => [...m.addedNodes]).filter(n => n.classList?.contains('ring')).length)"
               ".observe(document.getElementById('pictures'), {childList: true, subtree: true})")
    visitor.ask(STORY)
    visitor.wait_begun()
    fresh.kill("shard-1")
    page.until(lambda: "shard-1 was lost" in page.text("#events") and "recovered in" in page.text("#events"))
    page.until(lambda: "↻1" in page.text("#pictures [data-name=shard-1] .small"))
    assert page.value("rings") >= 1
    page.until(lambda: page.text("#phase") == "ready" and page.text("#pictures [data-name=shard-1] .stands") == "✓\nready")
    assert visitor.wait_end() == whole
    assert page.value("[...document.querySelectorAll('#rows tr')].find(r => r.children[0].textContent === 'shard-1').children[5].textContent") == "1"
    quiet(page)


def test_an_answer_goes_on_when_the_gateway_is_killed(fresh, page):
    whole = undisturbed(fresh, max_tokens=250)
    visitor = Visitor(page, fresh.url).open(temperature=0, max_tokens=250)
    visitor.ask(STORY)
    visitor.wait_begun()
    page.value("window.noted = ''; new MutationObserver(() => noted += document.querySelector('.assistant .note').textContent)"
               ".observe(document.getElementById('talk'), {childList: true, subtree: true, characterData: true})")
    fresh.kill("gateway")
    page.until(lambda: "connection lost, waiting" in page.value("noted"))
    assert visitor.wait_end() == whole
    assert len(visitor.answers) == 1 and "lost" not in visitor.note
    page.until(lambda: "the gateway is unreachable" in page.text("#events") or "gateway was lost" in page.text("#events"))
    assert fresh.metric("baton_requests_resumed_total") == 1
    assert [c for c in page.complaints if c.get("source") != "network"] == []  # nobody listened for a while
    page.complaints.clear()
