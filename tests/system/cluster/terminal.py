"""`cluster` in a terminal of its own."""
import contextlib
import os
import pty
import re
import select
import signal
import termios
import time

from harness import CLUSTER, ROOT

IUTF8 = 0o40000  # of c_iflag (asm-generic/termbits.h); Python has no name for it


@contextlib.contextmanager
def terminal(home, *words):
    t = Terminal(home, *words)
    try:
        yield t
    finally:
        if not t.has_ended:
            os.kill(t.pid, signal.SIGKILL)
            os.waitpid(t.pid, 0)


class Terminal:
    """Runs the command in a separate terminal."""

    def __init__(self, home, *words):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(CLUSTER, [str(CLUSTER), *map(str, words)], {**home, "TERM": "xterm"})
        modes = termios.tcgetattr(self.master)
        modes[0] |= IUTF8  # as terminals set it: a character is erased whole
        termios.tcsetattr(self.master, termios.TCSANOW, modes)
        self.shown = ""
        self.has_ended = False

    def until(self, pattern, seconds=60):
        """Reads until the new output matches the pattern, and returns that output."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.shown):
            assert time.monotonic() < end, (pattern, self.shown)
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # it has ended
                    assert re.search(pattern, self.shown), (pattern, self.shown)
        part, self.shown = self.shown, ""
        return part

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self, seconds=30):
        """-> exit status"""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if select.select([self.master], [], [], 0.05)[0]:
                    os.read(self.master, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.has_ended = True
                os.close(self.master)
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it does not end")
