"""A visitor's actions and observations on the web page, in the page's own names."""
import json


class Visitor:
    """The visitor of a page of browser.py."""

    def __init__(self, page, url):
        self.page, self.url = page, url

    def open(self, **settings):
        """Opens the page again; only these settings are kept."""
        page = self.page
        page.look()
        page.open(self.url)
        page.until(lambda: page.text("#phase") == "ready")
        page.value(f"localStorage.clear(), sessionStorage.clear(), localStorage.setItem('baton.settings', {json.dumps(json.dumps(settings))})")
        # Running requests must not be stored again on leaving the page.
        page.value("addEventListener('pagehide', e => e.stopImmediatePropagation(), {capture: true})")
        page.reload()
        self.wait_standing()
        return self

    def wait_standing(self):
        self.page.until(lambda: self.page.value("document.readyState === 'complete' && document.getElementById('phase')?.textContent") == "ready")

    def ask(self, text):
        self.page.value("document.getElementById('text').focus()")
        self.page.type(text)
        self.page.press("Enter")

    @property
    def answers(self):
        return self.page.value("[...document.querySelectorAll('.assistant .text')].map(e => e.textContent)")

    @property
    def answer(self):
        return (self.answers or [""])[-1]

    @property
    def note(self):
        return self.page.value("[...document.querySelectorAll('.assistant .note')].at(-1)?.textContent ?? ''")

    @property
    def kept(self):
        """The stored text of the last answer in the newest conversation, and its state."""
        return self.page.value("""(() => {
            const all = Object.keys(localStorage).filter(k => k.startsWith('baton.conversation.')).map(k => JSON.parse(localStorage[k]));
            const turns = Object.values(all.sort((a, b) => b.updated - a.updated)[0]?.turns ?? {}).filter(t => t.role === 'assistant');
            return turns.length ? [turns.at(-1).text, turns.at(-1).state] : ['', 'none'];
        })()""")

    def wait_begun(self, chars=40):
        return self.page.until(lambda: len(self.answer) > chars and self.answer)

    def wait_end(self):
        """The raw text of the answer."""
        self.page.until(lambda: self.page.text("#send") == "Send" and self.kept[1] in ("done", "failed"))
        return self.kept[0]

    def act(self, words, last=True):
        """Presses a button below a turn."""
        self.page.value(f"[...document.querySelectorAll('.acts button')].filter(b => b.textContent === {json.dumps(words)} || b.ariaLabel === {json.dumps(words)})"
                        f".at({-1 if last else 0}).click()")
