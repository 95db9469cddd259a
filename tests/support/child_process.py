"""A command of ./check, ended with all its children at a deadline: of the whole run, or since its last line of output.
A build has the second deadline only, since its duration depends on the machine; a step of it that hangs writes nothing."""
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time

ENDED_BY_DEADLINE = 124  # the exit status of `timeout`
OUTPUT_BYTES_MAX = 16 << 20  # of the end of its output
READ_BYTES = 1 << 16
GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL, and for a pipe that a child still holds open


_running = set()
_is_stopping = threading.Event()  # a new command ends at once
_lock = threading.Lock()


def wait_seconds(now, begun, heard, deadline, silence):
    """Seconds to wait for more output; 0 or less: the deadline has passed. None: no limit."""
    left = [limit - (now - since) for limit, since in ((deadline, begun), (silence, heard)) if limit is not None]
    return min(left, default=None)


def why_over(now, begun, heard, deadline, silence):
    """A message for people naming the deadline that has passed; empty if none."""
    if deadline is not None and now - begun >= deadline:
        return f"ran past {deadline:.0f} s"
    if silence is not None and now - heard >= silence:
        return f"wrote nothing for {silence:.0f} s"
    return ""


class Tail:
    """The last bytes of a text that arrives in pieces."""

    def __init__(self, bytes_max=OUTPUT_BYTES_MAX):
        self._bytes_max, self._kept = bytes_max, bytearray()

    def add(self, piece):
        self._kept += piece
        if len(self._kept) > 2 * self._bytes_max:  # not at each piece
            del self._kept[: -self._bytes_max]

    def text(self):
        return bytes(self._kept[-self._bytes_max :]).decode(errors="replace")


def end(process):
    """Ends the whole process group, so that a build's compilers end with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)


def end_all_on_signals():
    """Ctrl-C and SIGTERM end all commands of run() on any thread, then this process: each command has a session of its own."""

    def stop(number, _):
        _is_stopping.set()
        for process in list(_running):
            end(process)
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def read_until_over(process, tail, deadline, silence):
    """-> which deadline has passed; empty if the command ended by itself"""
    begun = heard = time.monotonic()
    ended = None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if why := why_over(now, begun, heard, deadline, silence):
                return why
            left = wait_seconds(now, begun, heard, deadline, silence)
            if ready.select(1 if left is None else min(1, left)):
                piece = os.read(process.stdout.fileno(), READ_BYTES)
                if not piece:
                    return ""
                heard = time.monotonic()
                tail.add(piece)
            elif process.poll() is not None:  # a child that outlives it holds the pipe
                ended = ended or now
                if now - ended >= GRACE_SECONDS:
                    return ""


def run(command, cwd=None, env=None, deadline=None, silence=None):
    """-> (exit status, end of its output and errors). `env`: added to this process's environment."""
    tail = Tail()
    with subprocess.Popen([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
        with _lock:
            _running.add(process)
        if _is_stopping.is_set():  # it started while the others were ended
            end(process)
        try:
            why = read_until_over(process, tail, deadline, silence)
            if why:
                end(process)
                return ENDED_BY_DEADLINE, f"{tail.text()}\n... {why}"
            # Closed output is not the end: the rest of the deadline still applies.
            process.wait(deadline if silence is None else silence)
        except subprocess.TimeoutExpired:
            end(process)
            return ENDED_BY_DEADLINE, f"{tail.text()}\n... closed its output and did not end"
        finally:
            with _lock:
                _running.discard(process)
    return process.returncode, tail.text()
