"""Clients for faults.py: one streamed answer each, read strictly and with the time of each piece; crowds, and clients that go away."""
import dataclasses
import http.client
import json
import math
import os
import pathlib
import threading
import time

from load import percentile

__all__ = ["percentile"]
SUBJECTS = ("a fox", "the sea", "a clock", "rain", "a bridge", "bread", "the moon", "a train", "a harbour", "a garden", "snow", "a market",
            "an old map", "a lamp", "the wind", "a violin")
SECONDS_MAX = 90


def body_of(number, tokens, stream=True):
    return body_about(SUBJECTS[number % len(SUBJECTS)], tokens, stream)


def body_about(subject, tokens, stream=True):
    return json.dumps({"model": "bench", "stream": stream, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                       "messages": [{"role": "user", "content": f"Write a short story about {subject}."}]})


class Client(threading.Thread):
    """After join: text, stamps, and `faults()`: what was against the rules. One that comes back does so with Last-Event-ID."""

    def __init__(self, port, number, tokens, comes_back, subject=""):
        super().__init__(daemon=True)
        self._port, self._comes_back = port, comes_back
        self._body = body_about(subject, tokens) if subject else body_of(number, tokens)
        self.text, self.stamps, self.finishes, self.dones, self.returns, self.error = "", [], 0, 0, 0, ""
        self._last_id, self._position = None, -1
        self._broken = []
        self.begun = threading.Event()

    def run(self):
        deadline = time.monotonic() + SECONDS_MAX
        while not self.dones and time.monotonic() < deadline:
            self.error = ""
            try:
                self._read()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.error = f"{type(error).__name__}: {error}"
            if self.dones or not self._comes_back or (self.error and "not_ready" not in self.error and self.error.startswith("HTTP")):
                break
            self.returns += 1
            time.sleep(0.01)
        self.begun.set()

    def _read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS_MAX)
        place = {"Last-Event-ID": self._last_id} if self._last_id else {}
        try:
            connection.request("POST", "/v1/chat/completions", self._body, {"Content-Type": "application/json", **place})
            answer = connection.getresponse()
            if answer.status != 200:
                self.error = f"HTTP {answer.status}: {answer.read().decode(errors='replace')[:200]}"
                return
            for line in answer:
                self._take(line.decode().rstrip(), time.monotonic())
        finally:
            connection.close()

    def _take(self, line, now):
        if line.startswith("id: "):
            self._last_id = line[4:]
            position = int(self._last_id.split(":")[1].rstrip("!"))
            if position < self._position:
                self._broken.append(f"went back from {self._position} to {position}")
            self._position = position
        elif line == "data: [DONE]":
            self.dones += 1
        elif line.startswith("data: "):
            self._take_event(json.loads(line[6:]), now)

    def _take_event(self, event, now):
        if "error" in event:
            self.error = f"error: {event['error']['code']}"
            return
        for choice in event["choices"]:
            if piece := choice["delta"].get("content"):
                self.text += piece
                self.stamps.append(now)
                self.begun.set()
            self.finishes += choice["finish_reason"] is not None

    def faults(self):
        if self.error:
            return [self.error]
        found = list(self._broken)
        if (self.finishes, self.dones) != (1, 1):
            found.append(f"{self.finishes} ends and {self.dones} [DONE]")
        return found

    def gap_after(self, moment, within=math.inf):
        """Seconds of its longest wait that ended after that and had begun within so many seconds; None if it had ended before."""
        later = [t for t in self.stamps if t > moment]
        before = [t for t in self.stamps if t <= moment]
        times = before[-1:] + later
        return max((b - a for a, b in zip(times, times[1:]) if a < moment + within), default=None) if later else None


def started(port, count, tokens, comes_back=False):
    clients = [Client(port, number, tokens, comes_back) for number in range(count)]
    for client in clients:
        client.start()
    return clients


def send_signal(pid, number):
    os.kill(pid, number)


def get_health(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def healthy_again(port, struck, seconds_max):
    """Seconds from then until a new request would be served."""
    time.sleep(0.005)  # a gateway that was killed may still have a connection in its queue
    while get_health(port) != 200 and time.monotonic() < struck + seconds_max:
        time.sleep(0.005)
    return time.monotonic() - struck


@dataclasses.dataclass
class Crowd:
    seconds: float = 0.0
    tokens: int = 0
    refusals: list = dataclasses.field(default_factory=list)  # seconds to each
    faults: list = dataclasses.field(default_factory=list)


def crowd(port, clients, tokens, seconds):
    """So many clients that ask again and again for whole answers, and when refused wait as long as they are told."""
    result, lock, begin = Crowd(), threading.Lock(), time.monotonic()
    end = begin + seconds

    def ask(number):
        while time.monotonic() < end:
            asked = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
            try:
                connection.request("POST", "/v1/chat/completions", body_of(number, tokens, stream=False), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                with lock:
                    result.faults.append(f"{type(error).__name__}: {error}")
                continue
            finally:
                connection.close()
            took = time.monotonic() - asked
            with lock:
                if answer.status == 200:
                    result.tokens += body["usage"]["completion_tokens"]
                elif answer.status == 503 and answer.headers["Retry-After"]:
                    result.refusals.append(took)
                else:
                    result.faults.append(f"HTTP {answer.status}")
            if answer.status != 200:
                time.sleep(float(answer.headers["Retry-After"] or 1))

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(seconds + SECONDS_MAX)
    result.seconds = time.monotonic() - begin
    return result


def abrupt(port, clients):
    """So many streams at once that are dropped after their first bytes."""
    connections = []
    for number in range(clients):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
        connection.request("POST", "/v1/chat/completions", body_of(number, 2000), {"Content-Type": "application/json"})
        connections.append(connection)
    for connection in connections:
        connection.getresponse().readline()
    for connection in connections:
        connection.close()


def held_by(pid):
    process = pathlib.Path(f"/proc/{pid}")
    return {"files": len(list((process / "fd").iterdir())), "threads": len(list((process / "task").iterdir()))}
