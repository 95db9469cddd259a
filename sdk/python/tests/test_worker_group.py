"""Ranks of a worker: messages from rank 0 to the others, and the same computation on all."""

import os
import socket
import types

import pytest
from test_worker_link import infer_batch

from baton_client import codec
from baton_client.inference import Infer
from baton_worker import Handler, group, serve
from baton_worker.group import Follower, Leader
from baton_worker.link import Batch, Void

ADDRESSES = codec.Address(1, 1, 7), codec.Address(2, 1, 8)


def packet_of(*requests):
    kind, body = infer_batch(*requests)
    return codec.pack(codec.envelope(kind, *ADDRESSES, 0, 1), body)


@pytest.fixture
def pair():
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


class Noted(Handler):
    def __init__(self):
        self.calls = []

    def handle(self, requests):
        self.calls.append([r.number for r in requests])
        if requests[0].number == 13:
            raise RuntimeError("as it was asked to")
        return [self.stream(r) for r in requests]

    def stream(self, request):
        for i in range(request.number):
            assert not request.is_cancelled
            request.send("nobody hears this")
            self.calls.append((request.number, i))
            yield "x"

    def finalize(self):
        self.calls.append("end")


def test_a_rank_takes_part_in_what_rank_0_hands_on(pair):
    leader, rank = Leader([pair[0]], hands_on=True), Follower(pair[1])
    handler = Noted()
    for requests in ((2, 1), (13,), (1,)):
        leader.hand_on(packet_of(*requests))
    pair[0].shutdown(socket.SHUT_WR)
    rank.serve(handler)
    leader.wait_ready()
    assert handler.calls == [[2, 1], (2, 0), (1, 0), (2, 1), [13], [1], (1, 0), "end"]


def test_a_rank_that_is_gone_is_no_answer(pair, monkeypatch):
    slept = []
    monkeypatch.setattr(group.time, "sleep", slept.append)
    pair[1].close()
    with pytest.raises(SystemExit):
        Leader([pair[0]], hands_on=True).wait_ready()
    with pytest.raises(SystemExit):
        Leader([pair[0]], hands_on=True).hand_on(packet_of(1))
    assert slept == [group.END_MAX] * 2


def test_a_batch_that_cannot_be_is_refused(pair):
    pair[0].sendall(group.LENGTH.pack(group.PACKET_MAX + 1))
    with pytest.raises(ValueError, match="at most"):
        Follower(pair[1])._next()


@pytest.mark.parametrize("parallel, hands_on", [("pp", False), ("tp", True), ("pptp", True)])
def test_the_environment_says_which_rank_this_is(pair, monkeypatch, parallel, hands_on):
    monkeypatch.setenv("BATON_GROUP_PARALLEL", parallel)
    assert Leader.of_environment() is None and Follower.of_environment() is None
    numbers = [os.dup(end.fileno()) for end in pair]
    for number in numbers:
        os.set_inheritable(number, True)
    monkeypatch.setenv("BATON_GROUP_RANKS", str(numbers[0]))
    leader = Leader.of_environment()
    assert leader.hands_on == hands_on and not os.get_inheritable(numbers[0])
    assert "BATON_GROUP_RANKS" not in os.environ
    monkeypatch.setenv("BATON_GROUP_RANKS", "")
    assert not Leader.of_environment().hands_on  # a group of one
    assert Leader.of_environment() is None
    monkeypatch.setenv("BATON_GROUP_LEADER", str(numbers[1]))
    assert Follower.of_environment() is not None and "BATON_GROUP_LEADER" not in os.environ


IN_STEP = Leader([], hands_on=True)


class LostLink:
    """A link without a server, whose clients have left."""

    def put(self, batch, piece):
        raise Void

    def is_cancelled(self, batch, number):
        return True


class Pieces(Handler):
    def __init__(self, *pieces):
        self.pieces, self.made = pieces, []

    def handle(self, requests):
        return [self.stream() for _ in requests]

    def stream(self):
        for piece in self.pieces:
            self.made.append(piece)
            yield piece


def batch_of(*requests):
    return Batch(1, [Infer(request=r) for r in requests])


def test_rank_0_finishes_a_batch_without_a_client(monkeypatch):
    handler = Pieces("a", "b", "c")
    serve.run_batch(handler, LostLink(), batch_of(1), group=IN_STEP)
    assert handler.made == ["a", "b", "c"]
    alone = Pieces("a", "b", "c")
    with pytest.raises(Void):
        serve.run_batch(alone, LostLink(), batch_of(1))
    assert alone.made == []


def test_an_answer_that_is_none_does_not_take_rank_0_out_of_step():
    class Kept:
        pieces = []

        def put(self, batch, piece):
            self.pieces.append(piece)

        def is_cancelled(self, batch, number):
            return False

    handler = Pieces("a", object(), "c")
    serve.run_batch(handler, Kept(), batch_of(1), group=IN_STEP)
    assert len(handler.made) == 3 and len(Kept.pieces) == 2  # the second ends the request




class Raises(Handler):
    def __init__(self, in_stream):
        self.in_stream = in_stream

    def handle(self, requests):
        if not self.in_stream:
            raise EOFError("a rank has gone")
        return [self.stream() for _ in requests]

    def stream(self):
        raise EOFError("a rank has gone")
        yield


@pytest.mark.parametrize("hands_on", [False, True])
@pytest.mark.parametrize("in_stream", [False, True])
def test_an_exception_caused_by_a_lost_rank_is_not_reported(pair, monkeypatch, in_stream, hands_on):
    monkeypatch.setattr(group, "LOST_WAIT_MS", 1)
    monkeypatch.setattr(group.time, "sleep", lambda seconds: None)
    reply = []
    link = types.SimpleNamespace(put=lambda batch, piece: reply.append(piece), is_cancelled=lambda batch, number: False)
    leader = Leader([pair[0]], hands_on)
    serve.run_batch(Raises(in_stream), link, batch_of(1), leader)
    assert len(reply) == 1  # no rank is lost: it is the handler's own exception
    pair[1].close()
    with pytest.raises(SystemExit):
        serve.run_batch(Raises(in_stream), link, batch_of(2), leader)
    assert len(reply) == 1
