"""One DEALER to the door and the thread that owns it: hello, heartbeats, credit, and an inbox
for each open request (docs/protocol.md, "The ZeroMQ door").

    connecting --hello_ack--> open --silence, disconnect, bad frame, gap--> lost
    connecting --refusal, timeout--> an exception     lost: every inbox raises why
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, Optional, Tuple

import zmq

from . import codec
from .errors import BatonError, DeadlineExceeded, LinkDown, SlowReader
from .wire.MessageKind import MessageKind

HEARTBEAT_INTERVAL = 1.0  # seconds; the door's bound of silence is five of them
SILENCE_MAX = 5.0
LINGER_MS = 200  # what a last cancel may take
MESSAGE_BYTES_MAX = 16 << 20  # client_body_bytes_max of schema/limits.hpp
PACKET_EXTRA_BYTES_MAX = 2048  # sizes, envelope, padding
INBOX_BYTES_MAX = 8 << 20  # of one stream, unread: a whole answer of the longest context is below it
DOOR_ACTOR = 7
CLIENT_ACTOR = 8


@dataclass
class Inbox:
    """Credit goes back when a message has arrived here, so that a stream which nobody reads never
    holds up its siblings; its own inbox has a bound."""

    arrived: Deque[Tuple[Any, int]] = field(default_factory=deque)  # value, bytes
    unread_bytes: int = 0
    ticket: int = 0
    cancel_wanted: bool = False  # asked for before the ticket was known
    ended: Optional[BatonError] = None  # by us: raised when all that arrived is taken


class Connection:
    """All methods may be called from any thread."""

    def __init__(self, endpoint: str, name: str, connect_timeout: float):
        self._us = codec.Address(
            secrets.randbits(31) | 0x80000000, time.time_ns(), CLIENT_ACTOR
        )
        self._door = codec.Address(0, 0, DOOR_ACTOR)
        self._name = name
        self._window_bytes = 0
        self._sequence_out = 0
        self._sequence_in = 0
        self._changed = threading.Condition()
        self._inboxes: Dict[int, Inbox] = {}
        self._queued: Deque[Tuple[int, bytes, int]] = deque()  # kind, body, correlation
        self._requests = 0
        self._arrived_bytes = 0
        self._credited_bytes = 0
        self._lost: Optional[BatonError] = None
        self._closing = False
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        try:
            self._connect(endpoint)
            self._greet(connect_timeout)
        except BaseException:
            self._close_sockets()
            raise
        self._thread = threading.Thread(target=self._run, name="baton-client", daemon=True)
        self._thread.start()

    # -- Called by anyone --

    def ask(self, kind: int, body_of: Callable[[int], bytes]) -> int:
        """Gives the question a number and an inbox, and sends it."""
        with self._changed:
            if self._lost is not None:
                raise self._lost
            self._requests += 1
            request = self._requests
            self._inboxes[request] = Inbox()
        try:
            body = body_of(request)
            if len(body) > MESSAGE_BYTES_MAX:
                raise BatonError(9, "payload_too_large", f"the request has {len(body)} bytes")
        except BaseException:
            self.forget(request)
            raise
        with self._changed:
            self._enqueue(kind, body, request)
        return request

    def take(self, request: int, timeout: float):
        """The next value for `request`; raises what is an error."""
        deadline = time.monotonic() + timeout
        with self._changed:
            inbox = self._inboxes[request]
            while not inbox.arrived:
                if inbox.ended is not None:
                    raise inbox.ended
                if self._lost is not None:
                    raise self._lost
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DeadlineExceeded(f"no answer within {timeout} s")
                self._changed.wait(left)
            value, size = inbox.arrived.popleft()
            inbox.unread_bytes -= size
        if isinstance(value, BatonError):
            raise value
        return value

    def cancel(self, request: int) -> None:
        with self._changed:
            inbox = self._inboxes.get(request)
            if inbox is not None:
                self._end(request, inbox)

    def forget(self, request: int) -> None:
        """No more answers wanted: what still comes is taken in and dropped."""
        with self._changed:
            self._inboxes.pop(request, None)

    def ticket_of(self, request: int) -> int:
        with self._changed:
            inbox = self._inboxes.get(request)
            return inbox.ticket if inbox is not None else 0

    @property
    def is_open(self) -> bool:
        with self._changed:
            return self._lost is None

    def close(self) -> None:
        """Sends what is queued, then ends. Open streams raise LinkDown."""
        with self._changed:
            self._closing = True
            self._wake()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # -- With the lock held --

    def _enqueue(self, kind: int, body: bytes, correlation: int) -> None:
        if self._lost is None:
            self._queued.append((kind, body, correlation))
            self._wake()

    def _give_back(self, size: int) -> None:
        """A quarter of the window at a time: the door need not wait, nor hear of each chunk."""
        self._arrived_bytes += size
        if size and self._arrived_bytes - self._credited_bytes > self._window_bytes // 4:
            self._credited_bytes = self._arrived_bytes
            self._enqueue(MessageKind.credit, codec.credit(self._arrived_bytes), 0)

    def _end(self, request: int, inbox: Inbox) -> None:
        if inbox.ticket:
            self._enqueue(MessageKind.cancel, codec.cancel(inbox.ticket), request)
        else:
            inbox.cancel_wanted = True

    # -- The socket: the constructor's, then the thread's --

    def _wake(self) -> None:
        try:
            os.write(self._wake_out, b"x")
        except (BlockingIOError, OSError):
            pass  # a wake-up is pending anyway, or the thread has gone

    def _connect(self, endpoint: str) -> None:
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX + PACKET_EXTRA_BYTES_MAX)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as wrong:
            raise BatonError(90, "bad_config", f"cannot connect to '{endpoint}': {wrong}")
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._poller.register(self._wake_in, zmq.POLLIN)

    def _send(self, kind: int, body: bytes, correlation: int) -> bool:
        head = codec.envelope(kind, self._us, self._door, correlation, self._sequence_out + 1)
        try:
            self._socket.send(codec.pack(head, body), flags=zmq.DONTWAIT)
        except zmq.Again:
            return False
        self._sequence_out += 1
        return True

    def _greet(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._send(MessageKind.hello, codec.hello(self._us, self._name, os.getpid()), 0)
        while True:
            left = deadline - time.monotonic()
            ready = dict(self._poller.poll(max(0.0, left) * 1000)) if left > 0 else {}
            if self._socket in ready:
                break
            if self._monitor in ready:
                raise LinkDown("the door closed the connection")
            if left <= 0:
                raise LinkDown(f"no door answered within {timeout} s")
        heard = codec.decode(self._socket.recv())
        if heard.kind == MessageKind.rejected:
            raise heard.value
        if heard.kind != MessageKind.hello_ack:
            raise codec.BadFrame(f"the door answered hello with kind {heard.kind}")
        if heard.value.refused is not None:
            raise heard.value.refused
        self._door.node, self._door.epoch = heard.value.node, heard.value.epoch
        self._window_bytes = heard.value.window_bytes
        self._sequence_in = heard.sequence

    def _run(self) -> None:
        try:
            self._serve()
            why: BatonError = LinkDown("the client was closed")
        except BatonError as wrong:
            why = wrong
        except zmq.ZMQError as wrong:
            why = LinkDown(str(wrong))
        with self._changed:
            self._lost = why
            self._queued.clear()
            self._close_sockets()
            self._changed.notify_all()

    def _serve(self) -> None:
        beats = 0
        heartbeat_due = time.monotonic() + HEARTBEAT_INTERVAL
        heard_at = time.monotonic()
        while True:
            if time.monotonic() >= heartbeat_due:
                heartbeat_due = time.monotonic() + HEARTBEAT_INTERVAL
                beats += 1
                with self._changed:
                    self._queued.append((MessageKind.heartbeat, codec.heartbeat(beats), 0))
            has_room = self._send_queued()
            with self._changed:
                if self._closing and (not self._queued or not has_room):
                    return
            flags = zmq.POLLIN if has_room else zmq.POLLIN | zmq.POLLOUT
            self._poller.modify(self._socket, flags)
            wait_ms = max(0.0, heartbeat_due - time.monotonic()) * 1000
            ready = dict(self._poller.poll(wait_ms))
            if self._wake_in in ready:
                self._drain_wake()
            if self._receive_all():
                heard_at = time.monotonic()
            if self._monitor in ready:
                raise LinkDown("the door closed the connection")
            if time.monotonic() - heard_at > SILENCE_MAX:
                raise LinkDown(f"the door was silent for {SILENCE_MAX} s")

    def _drain_wake(self) -> None:
        try:
            os.read(self._wake_in, 4096)
        except BlockingIOError:
            pass

    def _send_queued(self) -> bool:
        while True:
            with self._changed:
                if not self._queued:
                    return True
                kind, body, correlation = self._queued.popleft()
            if not self._send(kind, body, correlation):
                with self._changed:
                    self._queued.appendleft((kind, body, correlation))
                return False

    def _receive_all(self) -> bool:
        heard_any = False
        while True:
            try:
                packet = self._socket.recv(flags=zmq.DONTWAIT)
            except zmq.Again:
                return heard_any
            heard_any = True
            heard = codec.decode(packet)
            if (heard.source, heard.source_epoch) != (self._door.node, self._door.epoch):
                raise LinkDown("another door, or another life of it, answers now")
            self._sequence_in += 1
            if heard.sequence != self._sequence_in:
                raise LinkDown(f"message {heard.sequence} came in place of {self._sequence_in}")
            size = heard.size if heard.kind in codec.DATA_KINDS else 0
            self._deliver(heard, size)

    def _deliver(self, heard: codec.Heard, size: int) -> None:
        if heard.value is None:
            return  # heartbeat, credit, or what a newer door says
        with self._changed:
            self._give_back(size)
            inbox = self._inboxes.get(heard.request)
            if inbox is None or inbox.ended is not None:
                return
            if heard.kind == MessageKind.granted:
                inbox.ticket = heard.value
                if inbox.cancel_wanted:
                    self._enqueue(MessageKind.cancel, codec.cancel(inbox.ticket), heard.request)
            elif inbox.arrived and inbox.unread_bytes + size > INBOX_BYTES_MAX:
                inbox.ended = SlowReader(
                    f"{inbox.unread_bytes} bytes of this stream wait unread, "
                    f"its bound is {INBOX_BYTES_MAX}"
                )
                self._end(heard.request, inbox)
                self._changed.notify_all()
            else:
                inbox.unread_bytes += size
                inbox.arrived.append((heard.value, size))
                self._changed.notify_all()

    def _close_sockets(self) -> None:
        if not self._socket.closed:
            self._context.destroy(linger=LINGER_MS)  # the sockets with it
            os.close(self._wake_in)
            os.close(self._wake_out)
            self._wake_in = self._wake_out = -1
