"""The worker side of the worker protocol, over a real socket: a server that is late, rejects it, or sends several messages at once."""

import contextlib
import threading
import time
from collections import deque

import flatbuffers
import pytest
import zmq
from fake_door import Peer, hello_ack

from baton_client import codec, inference
from baton_client.errors import BatonError
from baton_client.inference import Inferred
from baton_client.wire import Envelope, HandlerMetrics, Hello, InferBatch
from baton_client.wire import Infer as wire_infer
from baton_client.wire.MessageKind import MessageKind
from baton_worker import link as link_module
from baton_worker.link import Link
from baton_worker.metrics import Metrics


def infer_batch(*requests):
    """A batch of one empty item for each."""
    b = flatbuffers.Builder(256)
    items = []
    for request in requests:
        wire_infer.InferStart(b)
        wire_infer.InferAddRequest(b, request)
        items.append(wire_infer.InferEnd(b))
    vector = codec._offset_vector(b, items)
    InferBatch.InferBatchStart(b)
    InferBatch.InferBatchAddItems(b, vector)
    return MessageKind.infer_batch, codec._finished(b, MessageKind.infer_batch, InferBatch.InferBatchEnd(b))


def values_of(body):
    """(name, is it set, value) of each metric."""
    root = HandlerMetrics.HandlerMetrics.GetRootAs(body, 0)
    return [(m.Name().decode(), m.Sets(), m.Value()) for m in (root.All(i) for i in range(root.AllLength()))]


def heartbeat(sequence):
    """From a server that has received messages up to this one."""
    return MessageKind.heartbeat, codec.heartbeat(sequence)


class WorkerDoor:
    """`on_hello(peer, count)` answers; received messages are kept by kind. With `hears` it acknowledges metrics."""

    def __init__(self, on_hello, endpoint, acknowledges):
        self.acknowledges, self.on_hello, self.hellos, self.kinds, self.counted = acknowledges, on_hello, 0, [], []
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.bind(endpoint)
        self.peers = {}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            if self.router.poll(20):
                routing, packet = self.router.recv_multipart()
                head, body, _ = codec.unpack(packet)
                envelope = Envelope.Envelope.GetRootAs(head, 0)
                kind = envelope.Kind()
                peer = self.peers.setdefault(routing, Peer(self, routing))
                self.kinds.append(kind)
                if kind == MessageKind.hello:
                    self.greeting = Hello.Hello.GetRootAs(body, 0)
                    self.hellos += 1
                    self.on_hello(peer, self.hellos)
                elif kind == MessageKind.handler_metrics:
                    self.counted.append((self.hellos, envelope.Sequence(), *values_of(body)))
                    if self.acknowledges:
                        peer.say(heartbeat(envelope.Sequence()))
        self.router.close()
        self.context.term()


@pytest.fixture
def door(tmp_path):
    opened = []

    def go(on_hello, metrics=None, acknowledges=False, **more):
        opened.append(WorkerDoor(on_hello, f"ipc://{tmp_path}/door", acknowledges))
        return opened[-1], Link(f"ipc://{tmp_path}/door", 5000, 1, "worker-m-0", metrics, **more)

    with contextlib.ExitStack() as ends:
        yield go
        for one in opened:
            ends.callback(one.thread.join)
            one.stopping.set()


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_client_that_leaves_before_the_handler_has_the_batch_is_not_forgotten(door):
    def greet(peer, _):
        peer.say(hello_ack(1 << 20))
        peer.say(infer_batch(1, 2))
        peer.say((MessageKind.cancel_infer, inference.cancel_infer(2)))

    _, link = door(greet)
    wait_for(lambda: link._cancelled)
    batch = link.next_batch()
    assert [item.request for item in batch.items] == [1, 2]
    assert link.is_cancelled(batch, 2) and not link.is_cancelled(batch, 1)


def test_an_unanswered_hello_is_repeated(door, monkeypatch):
    monkeypatch.setattr(link_module, "SILENCE_MAX", 0.3)

    def greet(peer, count):
        if count > 1:
            peer.say(hello_ack(1 << 20))
            peer.say(infer_batch(7))

    _, link = door(greet)
    assert link.next_batch().items[0].request == 7


@pytest.mark.parametrize("steady, behind_the_open_one", [(0, [0.05, 0.1, 0.2]), (5, [0.5, 0.5, 0.5])])
def test_repeated_rejections_and_short_links_increase_the_pause(door, monkeypatch, steady, behind_the_open_one):
    monkeypatch.setattr(link_module, "STEADY_MIN", steady)
    pauses = []
    sleep = time.sleep
    monkeypatch.setattr(link_module.time, "sleep", lambda seconds: (pauses.append((threading.current_thread(), seconds)), sleep(0.001)))

    def greet(peer, count):
        if count in (8, 12):  # it accepts, and closes
            peer.say(hello_ack(1 << 20))
        peer.say(hello_ack(0, (33, "not_ready", "the model is not there yet", True)))

    there, link = door(greet)
    deadline = time.monotonic() + 20
    while there.hellos < 11 and time.monotonic() < deadline:
        sleep(0.01)
    # Links of earlier tests, whose servers are gone, pause beside this one.
    asked = [p for thread, p in pauses if thread is link._thread and p >= link_module.RECONNECT_MIN]
    assert asked[:10] == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5, *behind_the_open_one]


def test_a_replaced_incarnation_ends(door):
    there, link = door(lambda peer, _: peer.say(hello_ack(0, (72, "stale_epoch", "a newer life of it is here", True))))
    with pytest.raises(BatonError, match="newer life"):
        link.next_batch()
    assert there.hellos == 1


def test_an_unreadable_message_ends_the_worker(door):
    def greet(peer, _):
        peer.say(hello_ack(1 << 20))
        peer.say((MessageKind.infer_batch, b"\4\0\0\0BT43" + b"\xff" * 40))

    _, link = door(greet)
    with pytest.raises(BatonError):
        link.next_batch()


def test_a_worker_says_how_long_its_handler_took_to_be_ready(door):
    there, _ = door(lambda *_: None, load_seconds=2.5)
    wait_for(lambda: there.hellos)
    assert there.greeting.LoadMicros() == 2_500_000


def test_a_worker_that_leaves_sends_drain_after_its_answers(door):
    there, link = door(lambda peer, _: (peer.say(hello_ack(1 << 20)), peer.say(infer_batch(1))))
    batch = link.next_batch()
    link.put(batch, inference.inferred(1, Inferred(body=b"x")))
    link.leave()
    wait_for(lambda: MessageKind.drain in there.kinds)
    assert there.kinds.index(MessageKind.inferred) < there.kinds.index(MessageKind.drain)
    next(iter(there.peers.values())).say((MessageKind.drain, codec.drain()))
    assert link.next_batch() is None


# -- metrics --


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(link_module, "HEARTBEAT_INTERVAL", 0.05)
    monkeypatch.setattr(link_module, "SILENCE_MAX", 0.8)
    metrics = Metrics()
    metrics.counter("words").increment(2)
    metrics.gauge("depth").set(4)
    return metrics


FIRST = [("words", False, 2.0), ("depth", True, 4.0)]


def greeting(epochs):
    """A server that is silent after hello until its next incarnation (`epochs`); the last one stays."""
    def greet(peer, count):
        peer.say(hello_ack(1 << 20, epoch=epochs[min(count, len(epochs)) - 1]))
    return greet


def rows_since(there, hello):
    return [row[2:] for row in list(there.counted) if row[0] >= hello]


def test_a_new_server_incarnation_gets_the_unacknowledged_metrics(door, counted):
    there, _ = door(greeting([1, 2]), counted)
    wait_for(lambda: rows_since(there, 2))
    assert rows_since(there, 1)[:2] == [tuple(FIRST), tuple(FIRST)]


def test_acknowledged_metrics_are_not_sent_to_a_new_incarnation(door, counted):
    there, _ = door(greeting([1, 2]), counted, acknowledges=True)
    wait_for(lambda: rows_since(there, 2))
    assert rows_since(there, 1)[:2] == [tuple(FIRST), (("words", False, 0.0), ("depth", True, 4.0))]


def test_the_same_server_incarnation_counts_nothing_twice(door, counted):
    there, _ = door(greeting([1]), counted)
    wait_for(lambda: there.hellos >= 2)
    counted.counter("words").increment(5)
    wait_for(lambda: rows_since(there, 2))
    assert rows_since(there, 1) == [tuple(FIRST), (("words", False, 5.0),)]


def test_unsent_metrics_are_sent_over_the_next_connection(door, counted, monkeypatch):
    send, refused = Link._send, []

    def once_in_vain(self, kind, body):
        if kind == MessageKind.handler_metrics and not refused:
            refused.append(values_of(body))
            counted.counter("words").increment()
            raise zmq.Again
        send(self, kind, body)

    monkeypatch.setattr(Link, "_send", once_in_vain)
    there, _ = door(greeting([1]), counted)
    wait_for(lambda: there.counted)
    assert refused == [FIRST] and rows_since(there, 1)[0] == (("words", False, 3.0), ("depth", True, 4.0))


def test_messages_of_what_is_counted_are_bounded(door, counted, monkeypatch):
    for i in range(300):
        counted.counter("wide").labels(i=str(i), text="x" * 250).increment()
    left, parts = deque(counted.take()), []
    while left:
        parts.append(link_module._part_of(left))
    assert [len(part) for part in parts] == [256, 46]
    monkeypatch.setattr(link_module, "METRIC_BYTES_MAX", 2000)
    left = deque([root for part in parts for root in part])
    assert {len(link_module._part_of(left)) for _ in range(20)} <= {4, 5, 6}
    monkeypatch.setattr(link_module, "METRIC_BYTES_MAX", 1)
    assert len(link_module._part_of(left)) == 1


def test_a_server_without_acknowledgements_gets_no_further_metrics(door, counted, monkeypatch):
    monkeypatch.setattr(link_module, "SILENCE_MAX", 30)
    monkeypatch.setattr(link_module, "UNACKNOWLEDGED_MAX", 2)
    there, link = door(greeting([1]), counted)
    wait_for(lambda: len(there.counted) == 1)
    counted.counter("words").increment()
    wait_for(lambda: len(there.counted) == 2)
    counted.counter("words").increment(10)
    beats = there.kinds.count(MessageKind.heartbeat)
    wait_for(lambda: there.kinds.count(MessageKind.heartbeat) > beats + 2)
    assert len(there.counted) == 2
    next(iter(there.peers.values())).say(heartbeat(there.counted[0][1]))
    wait_for(lambda: len(there.counted) == 3)
    assert there.counted[-1][2:] == (("words", False, 10.0),)
    counted.counter("words").increment(20)
    link.leave()
    wait_for(lambda: MessageKind.drain in there.kinds)
    assert there.counted[-1][2:] == (("words", False, 20.0),)
