"""A worker's end of the worker door, over a real socket: what it does when the door is late, refuses it, or says several things at once."""

import contextlib
import threading
import time

import flatbuffers
import pytest
import zmq
from fake_door import Peer, hello_ack

from baton_client import codec, inference
from baton_client.errors import BatonError
from baton_client.inference import Inferred
from baton_client.wire import Envelope, InferBatch
from baton_client.wire import Infer as wire_infer
from baton_client.wire.MessageKind import MessageKind
from baton_worker import link as link_module
from baton_worker.link import Link


def infer_batch(*requests):
    """A batch of one item for each, without a word in it."""
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


class WorkerDoor:
    """`on_hello(peer, count)` answers; what comes is kept by kind."""

    def __init__(self, on_hello, endpoint):
        self.on_hello, self.hellos, self.kinds = on_hello, 0, []
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
                kind = Envelope.Envelope.GetRootAs(codec.unpack(packet)[0], 0).Kind()
                peer = self.peers.setdefault(routing, Peer(self, routing))
                self.kinds.append(kind)
                if kind == MessageKind.hello:
                    self.hellos += 1
                    self.on_hello(peer, self.hellos)
        self.router.close()
        self.context.term()


@pytest.fixture
def door(tmp_path):
    opened = []

    def go(on_hello):
        opened.append(WorkerDoor(on_hello, f"ipc://{tmp_path}/door"))
        return opened[-1], Link(f"ipc://{tmp_path}/door", 5000, 1, "worker-m-0")

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


def test_a_door_that_does_not_answer_is_greeted_again(door, monkeypatch):
    monkeypatch.setattr(link_module, "SILENCE_MAX", 0.3)

    def greet(peer, count):
        if count > 1:
            peer.say(hello_ack(1 << 20))
            peer.say(infer_batch(7))

    _, link = door(greet)
    assert link.next_batch().items[0].request == 7


def test_a_life_that_is_over_for_the_door_ends(door):
    there, link = door(lambda peer, _: peer.say(hello_ack(0, (72, "stale_epoch", "a newer life of it is here", True))))
    with pytest.raises(BatonError, match="newer life"):
        link.next_batch()
    assert there.hellos == 1


def test_what_cannot_be_read_ends_the_worker(door):
    def greet(peer, _):
        peer.say(hello_ack(1 << 20))
        peer.say((MessageKind.infer_batch, b"\4\0\0\0BT43" + b"\xff" * 40))

    _, link = door(greet)
    with pytest.raises(BatonError):
        link.next_batch()


def test_a_worker_that_leaves_says_so_behind_what_it_answered(door):
    there, link = door(lambda peer, _: (peer.say(hello_ack(1 << 20)), peer.say(infer_batch(1))))
    batch = link.next_batch()
    link.put(batch, inference.inferred(1, Inferred(body=b"x")))
    link.leave()
    wait_for(lambda: MessageKind.drain in there.kinds)
    assert there.kinds.index(MessageKind.inferred) < there.kinds.index(MessageKind.drain)
    next(iter(there.peers.values())).say((MessageKind.drain, codec.drain()))
    assert link.next_batch() is None
