"""Chromium without a window, driven over its DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""
import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import httpx
from websockets.sync.client import connect

START_SECONDS_MAX = 60
CALL_SECONDS_MAX = 120  # a starved renderer answers late
CONTROLS = {"button", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "link", "tab", "menuitem", "slider", "DisclosureTriangle"}
KEY_NUMBERS = {"Enter": 13, "Escape": 27, "Tab": 9}


def find_chromium():
    for name in ("chromium-headless-shell", "chromium"):
        if shutil.which(name):
            return name
    return None


class Page:
    def __init__(self, socket):
        self.socket = socket
        self.numbers = itertools.count(1)
        self.loads = 0
        self.complaints = []  # exceptions and errors of the console, what the policy has kept out among them
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            reply = json.loads(self.socket.recv(timeout=CALL_SECONDS_MAX))
            if reply.get("id") == number:
                assert "error" not in reply, reply
                return reply["result"]
            self.loads += reply.get("method") == "Page.loadEventFired"
            if reply.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(reply["params"]["exceptionDetails"])
            elif reply.get("method") == "Log.entryAdded" and reply["params"]["entry"]["level"] == "error":
                self.complaints.append(reply["params"]["entry"])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def text(self, selector):
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText ?? e.textContent).join('\\n')")

    def until(self, what, seconds=120):
        """Waits until what() returns something true, and returns it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s; the page says:\n{self.value('document.body.innerText')}")

    def promised(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def reload(self):
        before = self.loads
        self.call("Page.reload")
        self.until(lambda: self.call("Browser.getVersion") and self.loads > before)

    def before_load(self, script):
        """Runs a script in each later document, before the document's own scripts."""
        return self.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]

    def look(self, width=1200, height=800, scheme="light", motion="reduce", scale=1):
        """Sets the size of the window, light or dark colours, and whether animations run."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}])

    def screenshot(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def controls(self):
        """(role, name) of each control, as a screen reader sees it."""
        tree = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if not n["ignored"] and n["role"]["value"] in CONTROLS]

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key, code=None, alt=False):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=1 if alt else 0, windowsVirtualKeyCode=KEY_NUMBERS.get(key, 0))


@contextlib.contextmanager
def browser():
    with tempfile.TemporaryDirectory(prefix="baton-chromium-", ignore_cleanup_errors=True) as profile:
        # Root may not use Chromium's sandbox; the only page it sees is ours.
        process = subprocess.Popen([find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                    "--window-size=1200,800", "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            port = None
            for line in process.stderr:
                if found := re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line):
                    port = found[1]
                    break
            assert port, f"{find_chromium()} ended with {process.wait(5)}"
            target = httpx.put(f"http://127.0.0.1:{port}/json/new?about:blank", timeout=START_SECONDS_MAX).json()
            with connect(target["webSocketDebuggerUrl"], max_size=64 << 20) as socket:
                yield Page(socket)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with its helpers
            process.wait()
