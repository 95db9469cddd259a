"""One DEALER to the gateway and the thread that owns it: hello, heartbeats, credit, and an inbox
for each open request (docs/reference/protocol.md, "The ZeroMQ door").

    connecting --hello_ack--> open --silence, disconnect, gap--> coming back --served--> open
    connecting --refusal, timeout--> an exception                     |
    lost: every inbox raises why <--reconnect_timeout, bad frame------+

The client reconnects with a new socket and a new incarnation. The server first ends the old incarnation's
requests, then receives the resumed ones. Streams resume after the chunks in their inboxes; unanswered requests
are sent again. All keep their numbers. A connection that is lost soon after it opened continues the pauses of
the last loss. It continues the deadline, too, if nothing was answered: a request may be what loses it each time.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, Optional, Tuple

import zmq

from . import codec, inference
from .errors import BatonError, DeadlineExceeded, LinkDown, SlowReader
from .inbox import Inbox
from .wire.MessageKind import MessageKind

HEARTBEAT_INTERVAL = 1.0  # seconds; the server's silence limit is five of them
SILENCE_MAX = 5.0
LINGER_MS = 200  # time for a last cancel
MESSAGE_BYTES_MAX = 16 << 20  # client_body_bytes_max of schema/limits.hpp
PACKET_EXTRA_BYTES_MAX = 2048  # sizes, envelope, padding
RECONNECT_MIN, RECONNECT_MAX = 0.02, 1.0  # seconds between two attempts; doubles
MODELS_INTERVAL = 0.05  # seconds between two requests to a server that has just started
SERVES = ("ready", "recovering")  # a model in these phases accepts requests
DOOR_ACTOR = 7
CLIENT_ACTOR = 8


class _Attempts:
    """To reconnect: the first one at once, then after growing pauses until the deadline."""

    def __init__(self, timeout: float):
        self._timeout = timeout
        self._pause = 0.0
        self.renew()

    def renew(self) -> None:
        self.deadline = time.monotonic() + self._timeout

    def next_pause(self) -> float:
        pause, self._pause = self._pause, min(max(2 * self._pause, RECONNECT_MIN), RECONNECT_MAX)
        return min(pause, max(0.0, self.deadline - time.monotonic()))


class Connection:
    """All methods may be called from any thread."""

    def __init__(
        self,
        endpoint: str,
        name: str,
        connect_timeout: float,
        reconnect_timeout: float,
        api_key: str = "",
    ):
        self._us = codec.Address(secrets.randbits(31) | 0x80000000, 0, CLIENT_ACTOR)
        self._endpoint = endpoint
        self._name = name
        self._api_key = api_key
        self._reconnect_timeout = reconnect_timeout
        self._is_connected = True  # false: reconnecting, or lost
        self._changed = threading.Condition()
        self._inboxes: Dict[int, Inbox] = {}
        self._queued: Deque[Tuple[int, bytes, int]] = deque()  # kind, body, correlation
        self._requests = 0
        self._lost: Optional[BatonError] = None
        self._closing = False
        self._is_answered = False  # something was, on this connection
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._context = zmq.Context()
        try:
            self._greet(time.monotonic() + connect_timeout)
        except BaseException:
            self._close_sockets()
            raise
        self._thread = threading.Thread(target=self._run, name="baton-client", daemon=True)
        self._thread.start()

    # -- Callable from any thread --

    def ask(self, kind: int, body_of: Callable[[int], bytes], choices: int = 0) -> int:
        """Gives the question a number and an inbox, and sends it now or after a reconnect."""
        with self._changed:
            if self._lost is not None:
                raise self._lost
            self._requests += 1
            request = self._requests
            inbox = self._inboxes[request] = Inbox([codec.Place()] * choices)
            inbox.is_inference = kind == MessageKind.infer
        try:
            body = body_of(request)
            if len(body) > MESSAGE_BYTES_MAX:
                raise BatonError(9, "payload_too_large", f"the request has {len(body)} bytes")
        except BaseException:
            self.forget(request)
            raise
        with self._changed:
            inbox.question = (kind, body)
            self._enqueue(kind, body, request)
        return request

    def take(self, request: int, timeout: float):
        """The next value for `request`; raises it if it is an error."""
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
            value = inbox.take()
        if isinstance(value, BatonError):
            raise value
        return value

    def cancel(self, request: int) -> None:
        with self._changed:
            inbox = self._inboxes.get(request)
            if inbox is not None:
                self._end(request, inbox)

    def forget(self, request: int) -> None:
        """No more answers are wanted: later ones are received and dropped."""
        with self._changed:
            inbox = self._inboxes.get(request)
            if inbox is None:
                return
            inbox.is_forgotten = True
            if inbox.is_over or not inbox.cancel_wanted:
                del self._inboxes[request]

    def ticket_of(self, request: int) -> int:
        with self._changed:
            inbox = self._inboxes.get(request)
            return inbox.ticket if inbox is not None else 0

    @property
    def is_open(self) -> bool:
        with self._changed:
            return self._lost is None

    def close(self) -> None:
        """Cancels open requests, sends the queue, then ends. Open streams raise LinkDown."""
        with self._changed:
            for request, inbox in list(self._inboxes.items()):
                if not self._closing and not inbox.is_over:
                    self._end(request, inbox)
            self._closing = True
            self._wake()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # -- With the lock held --

    def _enqueue(self, kind: int, body: bytes, correlation: int) -> None:
        if self._is_connected:
            self._queued.append((kind, body, correlation))
            self._wake()

    def _give_back(self, size: int) -> None:
        """A quarter of the window at a time: the server need not wait, and gets no credit per chunk."""
        self._arrived_bytes += size
        if size and self._arrived_bytes - self._credited_bytes > self._window_bytes // 4:
            self._credited_bytes = self._arrived_bytes
            self._enqueue(MessageKind.credit, codec.credit(self._arrived_bytes), 0)

    def _end(self, request: int, inbox: Inbox) -> None:
        inbox.cancel_wanted = True
        if inbox.is_inference:
            self._enqueue(MessageKind.cancel_infer, inference.cancel_infer(request), request)
        elif inbox.ticket:
            self._enqueue(MessageKind.cancel, codec.cancel(inbox.ticket), request)

    # -- The socket: the constructor's, then the thread's --

    def _wake(self) -> None:
        try:
            os.write(self._wake_out, b"x")
        except (BlockingIOError, OSError):
            pass  # a wake-up is already pending, or the thread has ended

    def _connect(self) -> None:
        self._context.destroy(linger=0)  # the old sockets
        self._context = zmq.Context()
        self._us.epoch = max(time.time_ns(), self._us.epoch + 1)  # the clock may have been set back
        self._door = codec.Address(0, 0, DOOR_ACTOR)
        self._window_bytes = self._arrived_bytes = self._credited_bytes = 0
        self._sequence_out = self._sequence_in = 0
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX + PACKET_EXTRA_BYTES_MAX)
        self._socket.setsockopt(zmq.RECONNECT_IVL, int(RECONNECT_MIN * 1000))
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, int(RECONNECT_MAX * 1000))
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            self._socket.connect(self._endpoint)
        except zmq.ZMQError as wrong:
            raise BatonError(90, "bad_config", f"cannot connect to '{self._endpoint}': {wrong}")
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

    def _greet(self, deadline: float) -> None:
        self._connect()
        self._send(MessageKind.hello, codec.hello(self._us, self._name, os.getpid(), self._api_key), 0)
        received = self._await_reply(MessageKind.hello_ack, deadline)
        if received.value.refused is not None:
            raise received.value.refused
        self._door.node, self._door.epoch = received.value.node, received.value.epoch
        self._window_bytes = received.value.window_bytes

    def _await_reply(self, kind: int, deadline: float) -> codec.Received:
        """The server's answer to the only outstanding request."""
        while True:
            left = deadline - time.monotonic()
            ready = dict(self._poller.poll(left * 1000)) if left > 0 else {}
            if self._wake_in in ready:
                self._drain_wake()
                self._pause(0)
            if self._socket in ready:
                received = codec.decode(self._socket.recv())
                self._sequence_in = received.sequence
                if received.kind == kind:
                    return received
                if received.kind == MessageKind.rejected:
                    raise received.value
                if received.kind != MessageKind.heartbeat:
                    raise codec.BadFrame(f"the gateway answered with kind {received.kind}")
            elif self._monitor in ready:
                raise LinkDown("the gateway closed the connection")
            elif left <= 0:
                raise LinkDown("no gateway answered in time")

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._closing, seconds):
                raise LinkDown("the client was closed")

    def _run(self) -> None:
        attempts = None
        opened_at = time.monotonic()
        try:
            while True:
                why = self._lost_by()
                if attempts is None or time.monotonic() - opened_at >= SILENCE_MAX:
                    attempts = _Attempts(self._reconnect_timeout)
                elif self._is_answered:
                    attempts.renew()
                self._is_answered = False
                with self._changed:
                    self._is_connected = False
                    self._queued.clear()
                    if self._closing:
                        break
                if not why.retryable:
                    break
                self._come_back(why, attempts)
                opened_at = time.monotonic()
        except BatonError as wrong:
            why = wrong
        with self._changed:
            self._lost = why
            self._close_sockets()
            self._changed.notify_all()

    def _lost_by(self) -> BatonError:
        """Serves until the connection is lost, or the client is closed; returns the reason."""
        try:
            self._serve()
            return LinkDown("the client was closed")
        except BatonError as wrong:
            return wrong
        except zmq.ZMQError as wrong:
            return LinkDown(str(wrong))

    def _come_back(self, why: BatonError, attempts: _Attempts) -> None:
        """Reconnects, or raises the reason why not."""
        while time.monotonic() < attempts.deadline:
            self._pause(attempts.next_pause())
            try:
                self._greet(min(attempts.deadline, time.monotonic() + SILENCE_MAX))
                self._await_model(attempts.deadline)
                return self._ask_again()
            except (BatonError, zmq.ZMQError) as wrong:
                if not getattr(wrong, "retryable", True):
                    raise
        raise why

    def _await_model(self, deadline: float) -> None:
        """A gateway that has just started rejects all requests until it knows the served models."""
        while True:
            self._send(MessageKind.list_models, codec.list_models(0), 0)
            models = self._await_reply(MessageKind.models, min(deadline, time.monotonic() + SILENCE_MAX))
            if any(model.phase in SERVES for model in models.value):
                return
            self._pause(MODELS_INTERVAL)

    def _ask_again(self) -> None:
        with self._changed:
            self._is_connected = True
            for request, inbox in list(self._inboxes.items()):
                rest = inbox.rest(request)
                if rest is not None:
                    self._enqueue(*rest, request)
                elif inbox.is_forgotten:
                    del self._inboxes[request]
            self._changed.notify_all()  # wakes calls whose rest cannot be requested

    def _serve(self) -> None:
        beats = 0
        heartbeat_due = time.monotonic() + HEARTBEAT_INTERVAL
        received_at = time.monotonic()
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
                received_at = time.monotonic()
            if self._monitor in ready:
                raise LinkDown("the gateway closed the connection")
            if time.monotonic() - received_at > SILENCE_MAX:
                raise LinkDown(f"the gateway was silent for {SILENCE_MAX} s")

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
        received_any = False
        while True:
            try:
                packet = self._socket.recv(flags=zmq.DONTWAIT)
            except zmq.Again:
                return received_any
            received_any = True
            received = codec.decode(packet)
            if (received.source, received.source_epoch) != (self._door.node, self._door.epoch):
                raise LinkDown("another gateway process answers now")
            self._sequence_in += 1
            if received.sequence != self._sequence_in:
                raise LinkDown(f"message {received.sequence} came in place of {self._sequence_in}")
            size = received.size if received.kind in codec.DATA_KINDS else 0
            self._deliver(received, size)

    def _deliver(self, received: codec.Received, size: int) -> None:
        if received.value is None:
            return  # heartbeat, credit, or a message of a newer server
        with self._changed:
            self._give_back(size)
            inbox = self._inboxes.get(received.request)
            if inbox is None:
                return
            self._is_answered = True
            if received.kind == MessageKind.granted:
                inbox.grant(*received.value)
                if inbox.cancel_wanted:
                    self._end(received.request, inbox)
            else:
                try:
                    inbox.put(received.value, size)
                except SlowReader as slow:
                    inbox.ended = slow
                    self._end(received.request, inbox)
                self._changed.notify_all()
            if inbox.is_forgotten and inbox.is_over:
                self._inboxes.pop(received.request, None)

    def _close_sockets(self) -> None:
        if not self._context.closed:
            self._context.destroy(linger=LINGER_MS)  # also closes the sockets
            os.close(self._wake_in)
            os.close(self._wake_out)
            self._wake_in = self._wake_out = -1
