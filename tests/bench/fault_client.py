"""Clients for faults.py: single streams, read strictly and with the time of each piece; crowds; and clients that leave."""
import base64
import contextlib
import dataclasses
import http.client
import json
import math
import os
import pathlib
import socket
import sys
import threading
import time

import machine
from load import percentile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "sdk" / "python"))  # for its client

__all__ = ["percentile"]
SUBJECTS = ("a fox", "the sea", "a clock", "rain", "a bridge", "bread", "the moon", "a train", "a harbour", "a garden", "snow", "a market",
            "an old map", "a lamp", "the wind", "a violin")
SECONDS_MAX = 90
SETTLING_SECONDS = 8


def body_of(number, tokens, stream=True):
    return body_about(SUBJECTS[number % len(SUBJECTS)], tokens, stream)


def body_about(subject, tokens, stream=True):
    return json.dumps({"model": "bench", "stream": stream, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                       "messages": messages_about(subject)})


def messages_about(subject):
    return [{"role": "user", "content": f"Write a short story about {subject}."}]


class Client(threading.Thread):
    """After join: text, stamps, and `faults()`, the broken rules. A client that returns sends Last-Event-ID."""

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


class WebSocket:
    """The part of RFC 6455 that /v1/stream needs: whole text frames, pings, a close. Raises OSError when the connection ends."""

    TEXT, CLOSE, PING, PONG, FINAL, MASKED = 0x1, 0x8, 0x9, 0xA, 0x80, 0x80

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        self._in = self._socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        if b" 101 " not in (first := self._in.readline()):
            raise OSError(f"no WebSocket: {first.decode(errors='replace').strip()}")
        while self._in.readline() not in (b"\r\n", b""):
            pass

    def send(self, message):
        self._frame(self.TEXT, json.dumps(message).encode())

    def receive(self):
        while True:
            kind, length = self._exactly(2)
            if length == 126:
                length = int.from_bytes(self._exactly(2), "big")
            elif length == 127:
                length = int.from_bytes(self._exactly(8), "big")
            data = self._exactly(length)
            if kind == self.FINAL | self.TEXT:
                return json.loads(data)
            if kind == self.FINAL | self.PING:
                self._frame(self.PONG, data)
            elif kind == self.FINAL | self.CLOSE:
                raise ConnectionResetError("closed by the server")

    def close(self):
        self._in.close()
        self._socket.close()

    def _frame(self, kind, data):
        mask = os.urandom(4)
        size = bytes([self.MASKED | len(data)]) if len(data) < 126 else bytes([self.MASKED | 126]) + len(data).to_bytes(2, "big")
        self._socket.sendall(bytes([self.FINAL | kind]) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def _exactly(self, count):
        if len(data := self._in.read(count)) < count:
            raise ConnectionResetError("the connection is over")
        return data


class WebSocketClient(Client):
    """A client of /v1/stream, which returns with `resume`."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._resume, self._index = None, 0

    def _read(self):
        with contextlib.closing(WebSocket(self._port)) as door:
            door.send({"type": "resume", "id": "a", "resume": self._resume, "from": self._index} if self._resume
                      else {"type": "start", "id": "a", **json.loads(self._body)})
            while not self.dones and not self.error:
                self._take_message(door.receive(), time.monotonic())

    def _take_message(self, message, now):
        if message["type"] == "granted":
            self._resume = message["resume"]
        elif message["type"] == "tokens":
            if message["index"] - message["count"] != self._index:
                self._broken.append(f"{message['count']} tokens up to {message['index']} behind {self._index}")
            self._index = message["index"]
            self.text += message["text"]
            self.stamps.append(now)
            self.begun.set()
        elif message["type"] == "done":
            self.finishes += 1
            self.dones += message["last"]
        else:
            self.error = f"HTTP: {message['error']['code']}"  # as its status would be


class SdkClient(Client):
    """A client with the Python SDK, which resumes by itself."""

    def __init__(self, door, number, tokens, comes_back, subject=""):
        super().__init__(0, number, tokens, comes_back, subject)
        self._door, self._asked = door, (subject or SUBJECTS[number % len(SUBJECTS)], tokens)

    def run(self):
        try:
            import baton_client  # its wire format is made by the build
        except ImportError as error:
            self.error = f"ImportError: {error}"
            self.begun.set()
            return
        subject, tokens = self._asked
        try:
            with baton_client.Client(self._door, model="bench", timeout=SECONDS_MAX, reconnect_timeout=SECONDS_MAX) as client:
                for chunk in client.stream(messages=messages_about(subject), max_tokens=tokens, temperature=0.0, ignore_eos=True):
                    self._take_chunk(chunk, time.monotonic())
                self.dones += 1
        except (baton_client.BatonError, OSError) as error:
            self.error = f"{type(error).__name__}: {error}"
        self.begun.set()

    def _take_chunk(self, chunk, now):
        if chunk.text:
            self.text += chunk.text
            self.stamps.append(now)
            self.begun.set()
        self.finishes += chunk.finish_reason is not None


def started(port, count, tokens, comes_back=False, door=""):
    """With `door`, half of the clients use HTTP, a quarter WebSocket and a quarter the SDK. Number n asks the same in each."""
    def made(number):
        if door and number % 4 == 1:
            return WebSocketClient(port, number, tokens, comes_back)
        if door and number % 4 == 3:
            return SdkClient(door, number, tokens, comes_back)
        return Client(port, number, tokens, comes_back)

    clients = [made(number) for number in range(count)]
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
    """Seconds from `struck` until a new request would be served."""
    time.sleep(0.005)  # a gateway that was killed may still have a connection in its queue
    while get_health(port) != 200 and time.monotonic() < struck + seconds_max:
        time.sleep(0.005)
    return time.monotonic() - struck


@dataclasses.dataclass
class Crowd:
    seconds: float = 0.0
    tokens: int = 0
    refusals: list = dataclasses.field(default_factory=list)  # seconds to each
    accepted: list = dataclasses.field(default_factory=list)  # seconds to each whole answer
    faults: list = dataclasses.field(default_factory=list)


def crowd(port, clients, tokens, seconds):
    """Runs `clients` clients that repeat whole requests and, after a rejection, wait for the given time."""
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
                    result.accepted.append(took)
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
    """So many streams at once that are dropped after their first bytes, every other one a WebSocket."""
    connections = []
    for number in range(clients):
        if number % 2:
            door = WebSocket(port)
            door.send({"type": "start", "id": "a", **json.loads(body_of(number, 2000))})
            connections.append((door, door.receive))
            continue
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
        connection.request("POST", "/v1/chat/completions", body_of(number, 2000), {"Content-Type": "application/json"})
        connections.append((connection, lambda c=connection: c.getresponse().readline()))
    for _, first in connections:
        first()
    for connection, _ in connections:
        connection.close()


def held_at_rest(root):
    """held_by(), the minimum of each value over some seconds: a client that asked for the status holds files for a while."""
    seen = [held_by(root)]
    for _ in range(SETTLING_SECONDS):
        time.sleep(1)
        seen.append(held_by(root))
    return {what: min(one[what] for one in seen) for what in seen[0]}


def held_by(root):
    """The resources of this process and all its descendants: open files, threads, shared memory files and their bytes."""
    files = threads = 0
    shared = {}  # once, however many have it
    for pid in machine.tree(root):
        with contextlib.suppress(OSError):
            threads += len(os.listdir(f"/proc/{pid}/task"))
            for fd in os.listdir(f"/proc/{pid}/fd"):
                files += 1
                with contextlib.suppress(OSError):  # closed meanwhile
                    name = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if name.startswith(("/memfd:", "/dev/shm/")):
                        about = os.stat(f"/proc/{pid}/fd/{fd}")
                        shared[about.st_dev, about.st_ino] = about.st_size
    return {"files": files, "threads": threads, "shared_files": len(shared), "shared_bytes": sum(shared.values())}
