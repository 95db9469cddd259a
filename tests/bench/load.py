"""Closed-loop load on /v1/chat/completions: so many streams at once, each sends its next request when one ends.

Called by run.py, and by hand: python3 tests/bench/load.py --url http://127.0.0.1:8000 --streams 8. One process, one
thread, raw sockets: it must take next to nothing of a machine whose cores the server needs. Temperature 0, ignore_eos,
token counts from `usage`. It also judges each stream: one terminal event, ids that neither jump back nor repeat.
"""
import argparse
import dataclasses
import json
import random
import resource
import selectors
import socket
import sys
import time
from urllib.parse import urlparse

WORDS = ("river stone market engine garden window paper signal winter copper island letter bridge candle forest planet "
         "silver thunder village harbor mirror basket lantern meadow orchard pepper ribbon saddle temple valley wagon "
         "anchor barrel cotton desert ember feather glacier hammer jungle kettle").split()
TEMPLATE_TOKENS = 50  # of a chat template, the number and the instruction; the rest is about one token a word
READ_BYTES = 1 << 16
PATIENCE_SECONDS = 0.0005
LAST_CHUNK = b"0\r\n\r\n"


@dataclasses.dataclass
class Load:
    """The requests to send."""
    url: str
    streams: int
    requests: int
    max_tokens: int = 128
    prompt_tokens: int = 100
    prompt_characters: int = 0  # of the whole prompt in place of that: for a model whose tokens are bytes
    seed: int = 1
    model: str = ""
    timeout: float = 300.0  # seconds for one request
    warmup: int = 1
    fields: dict = dataclasses.field(default_factory=dict)  # further ones of each request


@dataclasses.dataclass
class Stream:
    """One answer as it arrived. Times are of time.monotonic()."""
    number: int
    begun: float = 0.0
    ended: float = 0.0
    stamps: list = dataclasses.field(default_factory=list)  # arrival of each piece of text
    ids: list = dataclasses.field(default_factory=list)  # (ticket, index) of each piece of text, where the server sends ids
    text: str = ""
    finishes: list = dataclasses.field(default_factory=list)
    done_count: int = 0
    events_after_done: int = 0
    usage: dict = None
    error: str = ""
    pieces: list = dataclasses.field(default_factory=list)  # (bytes, arrival), not read yet
    answer: object = None

    @property
    def tokens(self):
        return (self.usage or {}).get("completion_tokens") or len(self.stamps)


def prompt_of(number, load):
    """A varied English prompt, the same for the same seed and number."""
    dice = random.Random(load.seed * 1000003 + number)
    words = " ".join(dice.choice(WORDS) for _ in range(max(1, load.prompt_characters or load.prompt_tokens - TEMPLATE_TOKENS)))
    prompt = f"Request {dice.randint(1000, 9999)}: write a long story that uses these words: {words}."
    return prompt[:load.prompt_characters] if load.prompt_characters else prompt


def request_bytes(load, number, host, port, path):
    body = {"messages": [{"role": "user", "content": prompt_of(number, load)}], "max_tokens": load.max_tokens, "stream": True,
            "temperature": 0, "ignore_eos": True, "stream_options": {"include_usage": True}, **load.fields}
    if load.model:
        body["model"] = load.model
    payload = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"Connection: close\r\nContent-Length: {len(payload)}\r\n\r\n").encode() + payload


def take_event(stream, data, last_id, now):
    """One `data:` line."""
    if stream.done_count:
        stream.events_after_done += data != b"[DONE]"
    if data == b"[DONE]":
        stream.done_count += 1
        return
    event = json.loads(data)
    if "error" in event:
        stream.error = json.dumps(event["error"])[:300]
        return
    stream.usage = event.get("usage") or stream.usage
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        if text := delta.get("content") or delta.get("reasoning_content"):
            stream.stamps.append(now)
            stream.text += text
            if last_id:
                stream.ids.append(last_id)
        if choice.get("finish_reason"):
            stream.finishes.append(choice["finish_reason"])


class Answer:
    """An HTTP/1.1 answer in pieces -> the stream's fields. Errors: ValueError, IndexError."""

    def __init__(self, stream):
        self.stream = stream
        self.held = b""  # of the headers, then of chunk framing
        self.line = b""  # begun, not ended
        self.status = None
        self.is_chunked = False
        self.last_id = None

    def take(self, data, now):
        self.held += data
        if self.status is None:
            head, found, rest = self.held.partition(b"\r\n\r\n")
            if not found:
                return
            self.status = int(head.split()[1])
            self.is_chunked = b"transfer-encoding: chunked" in head.lower()
            self.held = rest
        self.take_body(self.unframed(), now)

    def unframed(self):
        if not self.is_chunked:
            body, self.held = self.held, b""
            return body
        body = b""
        while True:
            size_line, found, rest = self.held.partition(b"\r\n")
            if not found:
                return body
            size = int(size_line.split(b";")[0], 16)
            if len(rest) < size + 2:
                return body
            body, self.held = body + rest[:size], rest[size + 2:]
            if size == 0:
                return body

    def take_body(self, body, now):
        *lines, self.line = (self.line + body).split(b"\n")
        for line in lines:
            if line.startswith(b"id:"):
                ticket, _, index = line[3:].strip().partition(b":")
                self.last_id = (ticket.decode(), int(index.rstrip(b"!")))
            elif line.startswith(b"data:"):
                take_event(self.stream, line[5:].strip(), self.last_id, now)

    def end(self):
        if self.status is None:
            raise ValueError("the connection ended before its headers")
        if self.status != 200:
            self.stream.error = f"HTTP {self.status}: " + self.line[:400].decode("utf-8", "replace").strip()


class Flight:
    """A request on its way. Keeps what arrives and when; reading it is put off, so that the load costs the machine little."""

    def __init__(self, load, number, on_text):
        url = urlparse(load.url)
        host, port, path = url.hostname, url.port or 80, url.path.rstrip("/") + "/v1/chat/completions"
        self.on_text, self.stream, self.socket = on_text, Stream(number), None
        self.stream.answer = Answer(self.stream)
        self.stream.begun = time.monotonic()
        self.deadline = self.stream.begun + load.timeout
        try:
            self.socket = socket.create_connection((host, port), timeout=load.timeout)
            self.socket.sendall(request_bytes(load, number, host, port, path))
            self.socket.setblocking(False)
        except OSError as error:
            self.end(f"{type(error).__name__}: {error}")

    @property
    def is_over(self):
        return self.socket is None

    def receive(self, now):
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(f"{type(error).__name__}: {error}")
            return
        stream = self.stream
        if data and self.on_text is None:
            stream.pieces.append((data, now))
        elif data:
            before = len(stream.stamps)
            stream.answer.take(data, now)
            if len(stream.stamps) > before:
                self.on_text(stream)
        if not data or data == LAST_CHUNK or data.endswith(b"\r\n" + LAST_CHUNK):  # else the server closes
            self.end()

    def end(self, error=""):
        self.stream.error, self.stream.ended = error, time.monotonic()
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def read(stream):
    """Processes the data that a Flight has deferred."""
    if stream.error:
        return stream
    try:
        for data, now in stream.pieces:
            stream.answer.take(data, now)
        stream.answer.end()
    except (ValueError, IndexError) as error:
        stream.error = f"{type(error).__name__}: {error}"
    stream.pieces.clear()
    return stream


def faults_of(stream, max_tokens):
    """The faults of an answer; empty if there are none."""
    if stream.error:
        return [stream.error]
    faults = []
    if len(stream.finishes) != 1:
        faults.append(f"{len(stream.finishes)} finish reasons")
    if stream.done_count != 1:
        faults.append(f"{stream.done_count} [DONE] events")
    if stream.events_after_done:
        faults.append(f"{stream.events_after_done} events after [DONE]")
    if not stream.usage:
        faults.append("no usage")
    elif stream.tokens != max_tokens:
        faults.append(f"{stream.tokens} tokens for {max_tokens} asked with ignore_eos")
    if stream.ids:
        indices = [index for _, index in stream.ids]
        if len({ticket for ticket, _ in stream.ids}) != 1 or len(indices) != len(stream.stamps):
            faults.append("event ids of several tickets, or missing")
        if any(b <= a for a, b in zip(indices, indices[1:])):
            faults.append("event ids repeat or go back")
        if indices[-1] > stream.tokens:
            faults.append(f"event id {indices[-1]} beyond the {stream.tokens} tokens of usage")
    return faults


def percentile(values, p):
    """Linear between ranks; None for an empty list."""
    if not values:
        return None
    ordered = sorted(values)
    rank = (len(ordered) - 1) * p / 100.0
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def steady_window(streams):
    """(begin, end) of the time in which every stream of the first wave decodes: from the last first token to the first end."""
    if any(not s.stamps for s in streams):
        return None
    begin, end = max(s.stamps[0] for s in streams), min(s.stamps[-1] for s in streams)
    return (begin, end) if end - begin >= 0.2 else None  # else too short to say anything


def steady_rate(streams):
    """Tokens/s in that time."""
    window = steady_window(streams)
    if window is None:
        return None
    begin, end = window
    return sum(s.tokens * sum(begin < t <= end for t in s.stamps) / len(s.stamps) for s in streams) / (end - begin)


def summary(load, streams, wall, cpu):
    """Figures over all good streams; milliseconds."""
    good = [s for s in streams if s.stamps and not faults_of(s, load.max_tokens)]
    faults = sorted({f for s in streams for f in faults_of(s, load.max_tokens)})
    ttft = [1e3 * (s.stamps[0] - s.begun) for s in good]
    gaps = [1e3 * (b - a) for s in good for a, b in zip(s.stamps, s.stamps[1:])]
    tokens = sum(s.tokens for s in good)
    first_wave = sorted(streams, key=lambda s: s.number)[:load.streams]
    return {"streams": load.streams, "requests": len(streams), "good": len(good), "faults": faults[:5], "wall_s": wall,
            "prompt_tokens": sum((s.usage or {}).get("prompt_tokens", 0) for s in good), "completion_tokens": tokens,
            "tok_s": tokens / wall, "steady_tok_s": steady_rate(first_wave), "steady_window": steady_window(first_wave),
            "ttft_p50_ms": percentile(ttft, 50), "ttft_p99_ms": percentile(ttft, 99),
            "itl_p50_ms": percentile(gaps, 50), "itl_p99_ms": percentile(gaps, 99), "client_cpu_s": cpu}


def fly(load, numbers, streams, on_text):
    """Requests of these numbers (an iterator), `streams` at a time -> Streams in the order of their ends, to be read by `read`."""
    ended, selector = [], selectors.DefaultSelector()

    def begin():
        for number in numbers:
            flight = Flight(load, number, on_text)
            if not flight.is_over:
                selector.register(flight.socket, selectors.EVENT_READ, flight)
                return
            ended.append(flight.stream)

    for _ in range(streams):
        begin()
    while flights := [key.data for key in selector.get_map().values()]:
        earliest = min(flight.deadline for flight in flights)
        while not any(flight.is_over for flight in flights):
            # The streams of a batch get their tokens together. A short wait for all of them wakes the client once per step instead of once
            # per stream; a wake-up takes a core from the measured server. Times are late by that wait.
            if not selector.select(max(0.0, earliest - time.monotonic())):
                break
            time.sleep(PATIENCE_SECONDS)
            now = time.monotonic()
            for key, _ in selector.select(0):
                key.data.receive(now)
        now = time.monotonic()
        for flight in flights:
            if not flight.is_over and now >= flight.deadline:
                flight.end(f"no end within {load.timeout} s")
        over = [key for key in list(selector.get_map().values()) if key.data.is_over]
        for key in over:  # all, before a new socket gets the number of one of them
            selector.unregister(key.fileobj)
            ended.append(key.data.stream)
        for _ in over:
            begin()
    return ended


def drive(load, on_text=None):
    """-> (streams in order of their number, wall seconds). Warm-up requests are not among them."""
    for i in range(load.warmup):
        warm = read(fly(load, iter([-1 - i]), 1, None)[0])
        if warm.error:
            return [warm], 1e-9
    begin = time.monotonic()
    streams = fly(load, iter(range(load.requests)), load.streams, on_text)
    wall = time.monotonic() - begin
    return sorted(map(read, streams), key=lambda s: s.number), wall


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(load):
    """-> summary of one load."""
    before = cpu_seconds()
    streams, wall = drive(load)
    return summary(load, streams, wall, cpu_seconds() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--prompt-tokens", type=int, default=100)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one request")
    options = parser.parse_args()
    report = measure(Load(**vars(options)))
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in report.items()}))
    return 0 if report["good"] == options.requests else 1


if __name__ == "__main__":
    sys.exit(main())
