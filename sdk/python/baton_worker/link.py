"""The worker side of the worker protocol (docs/reference/protocol.md): hello, heartbeats, batches, credit.

    connecting --hello_ack--> open --silence, disconnect, gap--> connecting     (what was open is void)
    connecting --silence--> connecting
    open --leave--> leaving --drain--> released
    connecting --refusal--> lost

A thread owns the socket; the handler's thread takes batches and puts pieces.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Deque, List, Optional, Set, Tuple

import zmq

from baton_client import codec, inference
from baton_client.errors import BatonError, LinkDown
from baton_client.inference import Infer
from baton_client.wire.MessageKind import MessageKind
from baton_client.wire.Role import Role

from .metrics import Metrics, Update

HEARTBEAT_INTERVAL = 1.0
SILENCE_MAX = 5.0
BATCH_BYTES_MAX = 64 << 20  # body_bytes_max of schema/limits.hpp
PACKET_EXTRA_BYTES_MAX = 2048
METRIC_BYTES_MAX = 256 << 10  # in one metrics message
UNACKNOWLEDGED_MAX = 32  # unacknowledged metrics messages; further metrics wait
RECONNECT_MIN, RECONNECT_MAX = 0.05, 0.5  # seconds between two attempts to connect; doubles
STEADY_MIN = 5.0  # seconds that a link was open, after which the pauses begin anew
POLL_INTERVAL_MS = 250
LINGER_MS = 500
STALE_EPOCH = 72  # another incarnation has replaced this process
DOOR_ACTOR, WORKER_ACTOR = 7, 8


class Void(Exception):
    """The server has lost this batch and would drop its pieces."""


@dataclass
class Batch:
    life: int  # number of the connection that delivered it
    items: List[Infer]
    packet: bytes = b""  # unchanged, if a group's ranks need it


def _part_of(left: Deque[Update]) -> List[Update]:
    """The metrics for the next message: at least one."""
    part = [left.popleft()]
    size = part[0].size
    while left and len(part) < inference.METRICS_MAX and size + left[0].size <= METRIC_BYTES_MAX:
        size += left[0].size
        part.append(left.popleft())
    return part


class Link:
    """`put`, `next_batch` and `is_cancelled` belong to the handler's thread; any thread may call `leave`."""

    def __init__(
        self,
        door: str,
        node: int,
        epoch: int,
        name: str,
        metrics: Optional[Metrics] = None,
        load_seconds: float = 0,
        keeps_packets: bool = False,
    ):
        self._keeps_packets = keeps_packets
        self._endpoint = door
        self._us = codec.Address(node, epoch, WORKER_ACTOR)
        self._name = name
        self._metrics = metrics or Metrics()
        self._load_micros = int(load_seconds * 1e6)
        self._metrics_epoch = 0  # incarnation of the server that has the metrics so far
        self._unacknowledged: Deque[Tuple[int, List[Update]]] = deque()  # with the sequence of their message
        self._changed = threading.Condition(threading.RLock())  # a signal may come while it is held
        self._life = 0
        self._is_open = False
        self._opened_at = 0.0
        self._batches: Deque[Batch] = deque()
        self._cancelled: Set[int] = set()
        self._queued: Deque[Tuple[int, bytes]] = deque()
        self._sent_bytes = self._credited_bytes = self._window_bytes = 0
        self._is_leaving = self._has_sent_drain = self._is_released = False
        self._lost: Optional[BatonError] = None
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._thread = threading.Thread(target=self._run, name="baton-worker", daemon=True)
        self._thread.start()

    # -- The handler's thread --

    def next_batch(self) -> Optional[Batch]:
        """None: the worker has left. Raises the reason why the link ended permanently."""
        with self._changed:
            while not self._batches:
                if self._lost is not None:
                    raise self._lost
                if self._is_released:
                    return None
                self._changed.wait(1.0)
            batch = self._batches.popleft()
            self._cancelled.intersection_update(item.request for item in batch.items)
            return batch

    def is_cancelled(self, batch: Batch, request: int) -> bool:
        with self._changed:
            return request in self._cancelled or batch.life != self._life

    def put(self, batch: Batch, piece: bytes) -> None:
        """Sends an encoded piece; waits for credit. Raises Void."""
        with self._changed:
            while (
                batch.life == self._life
                and self._sent_bytes > self._credited_bytes
                and self._sent_bytes - self._credited_bytes + len(piece) > self._window_bytes
            ):
                self._changed.wait(1.0)
            if batch.life != self._life or not self._is_open:
                raise Void
            self._sent_bytes += len(piece)
            self._queued.append((MessageKind.inferred, piece))
        self._wake()

    def leave(self) -> None:
        """Accepts no further batch; next_batch returns None once the server has the answers."""
        with self._changed:
            self._is_leaving = True
            self._changed.notify_all()
        self._wake()

    def close(self) -> None:
        self._thread.join(LINGER_MS / 1000)

    # -- The socket's thread --

    def _wake(self) -> None:
        try:
            os.write(self._wake_out, b"x")
        except BlockingIOError:
            pass  # a wake-up is pending

    def _run(self) -> None:
        # Only the handler's thread handles signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pause = RECONNECT_MIN
        while True:
            context = zmq.Context()
            try:
                self._connect(context)
                self._serve()
            except Exception as wrong:  # of any type: the handler's thread must be notified
                if self._is_open and time.monotonic() - self._opened_at >= STEADY_MIN:
                    pause = RECONNECT_MIN
                if not self._is_over(wrong):
                    time.sleep(pause)
                    pause = min(2 * pause, RECONNECT_MAX)
                    continue
            finally:
                context.destroy(linger=LINGER_MS)
            return

    def _is_over(self, wrong: Exception) -> bool:
        with self._changed:
            self._is_open = False
            self._life += 1
            self._batches.clear()
            self._cancelled.clear()
            self._queued.clear()
            if self._is_leaving:
                self._is_released = True
            elif not isinstance(wrong, (BatonError, zmq.ZMQError)):
                self._lost = LinkDown(f"{type(wrong).__name__}: {wrong}")
            elif isinstance(wrong, BatonError) and (not wrong.retryable or wrong.code == STALE_EPOCH):
                self._lost = wrong
            self._changed.notify_all()
            return self._is_released or self._lost is not None

    def _connect(self, context: zmq.Context) -> None:
        self._door = codec.Address(0, 0, DOOR_ACTOR)
        self._sequence_in = self._sequence_out = 0
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.SNDTIMEO, int(SILENCE_MAX * 1000))  # a server that reads nothing
        self._socket.setsockopt(zmq.MAXMSGSIZE, BATCH_BYTES_MAX + PACKET_EXTRA_BYTES_MAX)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._socket.connect(self._endpoint)
        self._poller = zmq.Poller()
        for readable in (self._socket, self._monitor, self._wake_in):
            self._poller.register(readable, zmq.POLLIN)
        body = codec.hello(self._us, self._name, os.getpid(), role=Role.worker, load_micros=self._load_micros)
        self._send(MessageKind.hello, body)

    def _send(self, kind: int, body: bytes) -> None:
        self._sequence_out += 1
        head = codec.envelope(kind, self._us, self._door, 0, self._sequence_out)
        if kind == MessageKind.inferred:
            with self._changed:
                self._sent_bytes += len(head)
        # Bounded by credit; a hello waits until the server is there.
        self._socket.send(codec.pack(head, body))

    def _serve(self) -> None:
        beats = 0
        received_at = beat_at = time.monotonic()
        while True:
            now = time.monotonic()
            if self._is_open and now >= beat_at:
                beats, beat_at = beats + 1, now + HEARTBEAT_INTERVAL
                self._send(MessageKind.heartbeat, codec.heartbeat(beats))
                self._send_metrics()
            if self._send_queued():
                return
            ready = dict(self._poller.poll(POLL_INTERVAL_MS))
            if self._wake_in in ready:
                self._drain_wake()
            if self._socket in ready:
                received_at = time.monotonic()
                self._receive_all()
            if self._monitor in ready:
                raise LinkDown("the gateway closed the connection")
            if time.monotonic() - received_at > SILENCE_MAX:
                raise LinkDown("the gateway fell silent")

    def _send_metrics(self, is_last: bool = False) -> None:
        """Needs no credit: bounded, and sent once a second."""
        if len(self._unacknowledged) >= UNACKNOWLEDGED_MAX and not is_last:
            return
        left = deque(self._metrics.take())
        while left:
            part = _part_of(left)
            try:
                self._send(MessageKind.handler_metrics, inference.handler_metrics(part))
            except BaseException:
                self._metrics.put_back([*part, *left])
                raise
            self._unacknowledged.append((self._sequence_out, part))

    def _settle_unacknowledged(self, epoch: int) -> None:
        """Called after a reconnect. A new incarnation of the server counts from the beginning, so it gets the unacknowledged metrics. The
        same incarnation may still read them from its queue and would count them twice."""
        if self._metrics_epoch != epoch:
            for _, part in self._unacknowledged:
                self._metrics.put_back(part)
        self._unacknowledged.clear()

    def _acknowledge(self, sequence: int) -> None:
        """`sequence` 0: a server without acknowledgements; it reads messages in order."""
        while self._unacknowledged and (sequence == 0 or self._unacknowledged[0][0] <= sequence):
            self._unacknowledged.popleft()

    def _send_queued(self) -> bool:
        """True: released, and nothing is left to send."""
        while True:
            with self._changed:
                if not self._is_open and self._is_leaving:
                    raise LinkDown("left before the gateway was there")
                if not self._queued:
                    if self._is_leaving and not self._has_sent_drain:
                        self._has_sent_drain = True
                        self._queued.append((MessageKind.drain, codec.drain()))
                    else:
                        return self._is_released
                kind, body = self._queued.popleft()
            if kind == MessageKind.drain:
                self._send_metrics(is_last=True)  # the server reads nothing after it
            self._send(kind, body)

    def _drain_wake(self) -> None:
        try:
            os.read(self._wake_in, 4096)
        except BlockingIOError:
            pass

    def _receive_all(self) -> None:
        while True:
            try:
                packet = self._socket.recv(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            self._take(codec.decode(packet), packet if self._keeps_packets else b"")

    def _take(self, received: codec.Received, packet: bytes) -> None:
        self._sequence_in += 1
        if received.sequence != self._sequence_in:
            raise LinkDown(f"message {received.sequence} came in place of {self._sequence_in}")
        with self._changed:
            if received.kind == MessageKind.hello_ack:
                if received.value.refused is not None:
                    raise received.value.refused
                self._door.node, self._door.epoch = received.value.node, received.value.epoch
                self._window_bytes = received.value.window_bytes
                self._settle_unacknowledged(received.value.epoch)
                if self._metrics_epoch not in (0, received.value.epoch):
                    self._metrics.report_again()
                self._metrics_epoch = received.value.epoch
                self._sent_bytes = self._credited_bytes = 0
                self._is_open, self._has_sent_drain = True, False
                self._opened_at = time.monotonic()
            elif received.kind == MessageKind.infer_batch:
                self._batches.append(Batch(self._life, received.value, packet))
            elif received.kind == MessageKind.cancel_infer:
                self._cancelled.add(received.value)
            elif received.kind == MessageKind.heartbeat:
                self._acknowledge(received.value)
            elif received.kind == MessageKind.credit:
                self._credited_bytes = received.value
            elif received.kind == MessageKind.drain:
                self._is_released = True
            self._changed.notify_all()
