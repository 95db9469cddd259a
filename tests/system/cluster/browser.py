"""Chromium without a window, driven over its DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""
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


def find_chromium():
    for name in ("chromium-headless-shell", "chromium"):
        if shutil.which(name):
            return name
    return None


class Page:
    def __init__(self, socket):
        self.socket = socket
        self.numbers = itertools.count(1)
        self.complaints = []  # exceptions and errors of the console
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self.socket.recv(timeout=CALL_SECONDS_MAX))
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]
            if told.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(told["params"]["exceptionDetails"])
            elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.complaints.append(told["params"]["entry"])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def text(self, selector):
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText).join('\\n')")

    def until(self, what, seconds=120):
        """what() -> something true, in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s; the page says:\n{self.value('document.body.innerText')}")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=13)


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
