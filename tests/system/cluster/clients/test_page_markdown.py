"""Answers as Markdown in the web page: what is shown, what stays text, and what a growing answer leaves alone."""
import json

import pytest
from browser import find_chromium
from test_page import page, visit_with, visitor  # noqa: F401

pytestmark = pytest.mark.skipif(not find_chromium(), reason="no chromium")

SHOWN = """# Drinks
See [the list](https://example.org/a_(b)) or https://example.org/x.

| Drink | Caffeine | Price |
|:--|--:|:-:|
| Tea | 40 `mg` | *low* \\| fair |
| Coffee | **95** |

1. First
   - nested
     - deep
2. Second

   more of it

   ```py
   print(1)
   ```
3. Third

> quoted
> - item

---
~~old~~ 2*3*4 snake_case_name"""


def html(page):  # noqa: F811
    return page.value("document.querySelector('.assistant .text').innerHTML")


def texts(page, selector):  # noqa: F811
    return page.value(f"[...document.querySelectorAll({json.dumps('.assistant .text ' + selector)})].map(e => e.textContent)")


def test_tables_links_lists_and_marks(page, visitor):  # noqa: F811
    visit_with(visitor, SHOWN)
    assert page.value("document.querySelector('.text [role=heading]').ariaLevel") == "3"
    assert texts(page, "th") == ["Drink", "Caffeine", "Price"] and texts(page, "td") == ["Tea", "40 mg", "low | fair", "Coffee", "95", ""]
    assert page.value("[...document.querySelectorAll('.text td')].slice(0, 3).map(e => getComputedStyle(e).textAlign)") == ["left", "right", "center"]
    links = page.value("[...document.querySelectorAll('.text a')].map(a => [a.getAttribute('href'), a.textContent, a.rel, a.target])")
    rel = "noopener noreferrer nofollow"
    assert links == [["https://example.org/a_(b)", "the list", rel, "_blank"], ["https://example.org/x", "https://example.org/x", rel, "_blank"]]
    assert texts(page, "> ol > li > ul > li > ul > li") == ["deep"] and len(texts(page, "> ol > li")) == 3
    assert texts(page, "> ol > li:nth-child(2) > *:not(figure)") == ["Second", "more of it"] and texts(page, "> ol pre") == ["print(1)"]
    assert texts(page, "blockquote li") == ["item"] and texts(page, "del") == ["old"] and len(texts(page, "> hr")) == 1
    assert texts(page, "em") == ["low"] and texts(page, "strong") == ["95"]
    page.look(width=360, height=740)
    assert page.value("document.documentElement.scrollWidth") == 360


def test_only_safe_addresses_become_links(page, visitor):  # noqa: F811
    bad = ["[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](java\tscript:alert(1))", "[a](data:text/html,x)", "[a](/cluster)", "[a](//evil.example)",
           "[a](vbscript:x)", "[a](file:///etc/passwd)", "[a](https://bank.example@evil.example)", "<javascript:alert(1)>", "[a](blob:https://example.org/x)",
           "<a href='javascript:alert(1)'>a</a>", "[a](https://)", "![a](javascript:alert(1))", "[a](&#106;avascript:alert(1))"]
    good = ["[m](mailto:a@example.org)", "<https://example.org/>", "[x](http://example.org \"a title\")", "![a picture](https://example.org/a.png)"]
    visit_with(visitor, "\n\n".join(bad + good))
    addresses = page.value("[...document.querySelectorAll('.text a')].map(a => a.href)")
    assert addresses == ["mailto:a@example.org", "https://example.org/", "http://example.org/", "https://example.org/a.png"]
    assert page.value("document.querySelectorAll('.text img').length") == 0 and page.value("window.owned") is None
    for text in bad:
        assert text in texts(page, "> p"), text


GROW = """(async () => {
    const {show_text} = await import('/page/text.js');
    const words = ['- ', '  - ', '1. ', '2. ', 'a', 'b c', '\\n', '\\n', '\\n\\n', '| a | b |', '|---|--:|', '|', '---', '```', '```py', '> ', '# ', '    ', '  ', '**x**', '**',
        '`', ' ', '~~~', '3', '. ', '-', '*', '[l](https://e.org)', '[l', '](http', '_i_', '\\\\'];
    let seed = 11;
    const random = n => (seed = (seed * 16807) % 2147483647) % n;
    for (let k = 0; k < 600; ++k) {
        const grown = document.createElement('div'), whole = document.createElement('div'), begun = document.createElement('div');
        let text = '';
        for (let i = random(40) + 1; i > 0; --i) {
            text += words[random(words.length)];
            show_text(grown, text, true, () => {});
        }
        show_text(begun, text, true, () => {});
        if (grown.innerHTML !== begun.innerHTML) return ['grown', text, grown.innerHTML, begun.innerHTML];
        show_text(grown, text, false, () => {});
        show_text(whole, text, false, () => {});
        if (grown.innerHTML !== whole.innerHTML) return ['ended', text, grown.innerHTML, whole.innerHTML];
    }
    return 'equal';
})()"""


def test_a_text_that_has_grown_looks_like_the_same_text_at_once(page, visitor):  # noqa: F811
    visitor.open()
    assert page.promised(GROW) == "equal"


LONG = """(async () => {
    const {show_text} = await import('/page/text.js'), {Blocks} = await import('/page/blocks.js');
    const box = document.querySelector('.assistant .text'), reader = new Blocks();
    box.replaceChildren();
    delete box.reader;
    const piece = SHOWN + '\\n\\n';
    let text = piece, changed = 0, read = 0;
    show_text(box, text, true, () => {});
    reader.read(text, true);
    const pre = box.querySelector('pre'), copy = box.querySelector('.code button'), cell = box.querySelector('td'), observed = [];
    copy.focus();
    getSelection().selectAllChildren(cell);
    const observer = new MutationObserver(all => observed.push(...all));
    observer.observe(box, {childList: true, subtree: true, characterData: true});
    const pieces = 60, step = 7;
    for (let i = 0; i < piece.length * pieces; i += step) {
        text += (piece + piece).slice(i % piece.length, i % piece.length + step);
        show_text(box, text, true, () => {});
        const now = reader.read(text, true);
        read = Math.max(read, now.blocks.length - now.changed);
    }
    observed.push(...observer.takeRecords());
    const early = observed.filter(m => box.children[6].contains(m.target)).length;
    return {early, read, per_step: observed.length / (piece.length * pieces / step), blocks: box.children.length, is_same: box.querySelector('pre') === pre && box.contains(cell),
        focus: document.activeElement === copy, selected: String(getSelection())};
})()"""


def test_a_growing_answer_leaves_alone_what_stands(page, visitor):  # noqa: F811
    """Each step reads and changes the last blocks, however long the text before."""
    visit_with(visitor, "x")
    seen = page.promised(LONG.replace("SHOWN", json.dumps(SHOWN)))
    assert seen["blocks"] > 300 and seen["read"] <= 6 and seen["per_step"] < 40, seen
    assert seen["early"] == 0 and seen["is_same"] and seen["focus"] and seen["selected"] == "Tea", seen


def test_open_marks_at_the_end_are_shown_as_they_will_be(page, visitor):  # noqa: F811
    visit_with(visitor, "x")
    for text, selector, shown in (("A **bold", "strong", ["bold"]), ("Use `co", "code", ["co"]), ("| a | b |", "th", ["a", "b"]), ("| a | b |\n|--", "th", ["a", "b"]),
                                  ("See [the](https://exa", "> p", ["See the"]), ("```py\nx = 1", "pre", ["x = 1"])):
        page.promised(f"import('/page/text.js').then(t => {{ const box = document.querySelector('.assistant .text'); box.replaceChildren(); delete box.reader;"
                      f" t.show_text(box, {json.dumps(text)}, true, () => {{}}); }})")
        assert texts(page, selector) == shown, (text, html(page))
