"""Reads SSE streams strictly and checks everything that a client may rely on."""
import contextlib
import http.client
import json
import threading
import time


class Stream(threading.Thread):
    """One streamed chat completion. After join: text, ids, finish, error, usage; `broken` lists broken rules."""

    MOVES_MAX = 0  # of a stream whose pipeline stays away

    def __init__(self, cluster, prompt, max_tokens=64, **fields):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.body = {"model": "smollm2", "stream": True, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
                     "temperature": 0, "stream_options": {"include_usage": True}, **fields}
        self.text, self.indices, self.calls = "", [], []  # a call: [id, name, arguments]
        self.status = self.finish = self.error = self.usage = self.ticket = self.last_id = None
        self.terminals = self.dones = 0
        self.broken = []
        self.moves = 0
        self.begun = threading.Event()
        self.start()

    def run(self):
        try:
            self.read()
        except Exception as e:  # noqa: BLE001 - a test reads it
            self.broken.append(f"{type(e).__name__}: {e}")
        finally:
            self.begun.set()

    def read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.http_port, timeout=120)
        place = {"Last-Event-ID": self.last_id} if self.last_id else {}
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body), {"Content-Type": "application/json", **place})
        answer = connection.getresponse()
        self.status = answer.status
        if answer.status != 200:
            self.error = json.load(answer)["error"]
            return
        for raw in answer:
            line = raw.decode().rstrip("\r\n")
            if line.startswith("id: "):
                self.last_id = line[4:]
                ticket, index = self.last_id.split(":")
                self.take_index(ticket, int(index.rstrip("!").split(".")[0]))  # of a stream with tools: index.bytes
            elif line.startswith("data: "):
                self.take_data(line[6:])

    def take_index(self, ticket, index):
        if self.ticket not in (None, ticket):
            self.moves += 1
            if self.moves > self.MOVES_MAX:
                self.broken.append("the ticket changed")
        self.ticket = ticket
        if self.indices and index < self.indices[-1]:
            self.broken.append(f"index went back from {self.indices[-1]} to {index}")
        self.indices.append(index)

    def take_data(self, data):
        if self.dones:
            self.broken.append("data after [DONE]")
        if data == "[DONE]":
            self.dones += 1
            return
        event = json.loads(data)
        if "error" in event:
            self.error = event["error"]
            self.terminals += 1
            return
        self.usage = event.get("usage") or self.usage
        for choice in event["choices"]:
            piece = choice["delta"].get("content") or ""
            if piece:
                if self.terminals:
                    self.broken.append("text after the end")
                self.text += piece
                self.begun.set()
            for part in choice["delta"].get("tool_calls", []):
                if "id" in part:
                    if part["index"] != len(self.calls):
                        self.broken.append(f"call {part['index']} behind {len(self.calls)}")
                    self.calls.append([part["id"], part["function"]["name"], ""])
                self.calls[part["index"]][2] += part["function"]["arguments"]
                self.begun.set()
            if choice.get("finish_reason"):
                self.finish = choice["finish_reason"]
                self.terminals += 1

    def check(self):
        """Exactly one terminal event, then [DONE]."""
        self.join(120)
        assert not self.is_alive(), "the stream did not end"
        assert not self.broken, self.broken
        assert self.terminals == 1 and self.dones == 1, (self.terminals, self.dones, self.error)
        return self


class MovedStream(Stream):
    MOVES_MAX = 1


def all_begun(streams, seconds=60):
    """Returns the streams once each has some of its text."""
    for s in streams:
        assert s.begun.wait(seconds)
    return streams


SUBJECTS = ("a fox", "the sea", "a clock", "rain", "a bridge", "snow", "a train", "the moon", "bread", "a storm", "a garden", "a letter", "salt", "a violin", "dust", "a map")


def begin_stories(cluster, kind=Stream, count=8, tokens=96):
    """The given number of streams, started, always the same ones."""
    return all_begun([kind(cluster, f"Write a short story about {x}.", max_tokens=tokens) for x in SUBJECTS[:count]], seconds=120)


def texts(streams):
    """The texts of streams; each stream must have ended well."""
    checked = [s.check() for s in streams]
    assert all(s.error is None for s in checked), [s.error for s in checked]
    return [s.text for s in checked]


class ResumingStream(Stream):
    """Comes back with Last-Event-ID when its connection falls, as EventSource does, until it has its end."""

    SECONDS_MAX = 60

    def __init__(self, *arguments, **fields):
        self.returns = 0
        super().__init__(*arguments, **fields)

    def read(self):
        deadline = time.monotonic() + self.SECONDS_MAX
        while not self.dones and time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                super().read()
                if self.dones or (self.status != 200 and self.error["code"] != "not_ready"):
                    return
            self.returns += self.last_id is not None and self.error is None
            self.error = None
            time.sleep(0.02)
