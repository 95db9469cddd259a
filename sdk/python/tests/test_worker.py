"""The loop of a worker process without a server: a handler's results become pieces, with one last piece for every request."""

import pytest

from baton_client import inference
from baton_client.inference import Infer, Inferred
from baton_worker import Handler, RequestError, Response, Tensor
from baton_worker.link import Batch, Void
from baton_worker.serve import run_batch


class FakeLink:
    """Keeps all pieces as (request, piece)."""

    def __init__(self, void_after=None):
        self.pieces, self.cancelled, self.void_after = [], set(), void_after

    def put(self, batch, body):
        if self.void_after is not None and len(self.pieces) == self.void_after:
            raise Void
        self.pieces.append(body)

    def is_cancelled(self, batch, request):
        return request in self.cancelled


@pytest.fixture
def read(monkeypatch):
    """Keeps pieces unencoded."""
    monkeypatch.setattr(inference, "inferred", lambda request, piece: (request, piece))


def run(handle, count=1, link=None):
    link = link or FakeLink()
    handler = type("H", (Handler,), {"handle": lambda self, requests: handle(requests)})()
    run_batch(handler, link, Batch(0, [Infer(request=i + 1, body=b"%d" % i) for i in range(count)]))
    return link.pieces


def ends(pieces):
    """Requests by the position of their last piece; each has exactly one, with nothing after it."""
    last = [request for request, piece in pieces if piece.is_last]
    assert len(last) == len(set(last))
    for request in set(request for request, _ in pieces):
        own = [piece for r, piece in pieces if r == request]
        assert [p.index for p in own] == list(range(len(own))) and [p.is_last for p in own] == [False] * (len(own) - 1) + [True]
    return last


def test_one_answer_for_each_request(read):
    pieces = run(lambda requests: [r.body + b"!" for r in requests], 3)
    assert [(r, p.body) for r, p in pieces] == [(1, b"0!"), (2, b"1!"), (3, b"2!")]
    assert ends(pieces) == [1, 2, 3]


@pytest.mark.parametrize(
    "value, body, content_type",
    [
        ("ä", "ä".encode(), "text/plain; charset=utf-8"),
        ({"a": [1, None]}, b'{"a": [1, null]}', "application/json"),
        (Response(b"x", "y/z"), b"x", "y/z"),
        (bytearray(b"x"), b"x", "application/octet-stream"),
    ],
)
def test_answers_have_the_type_that_they_are_of(read, value, body, content_type):
    ((_, piece),) = run(lambda _: [value])
    assert (piece.body, piece.content_type, piece.is_last) == (body, content_type, True)


def test_tensors(read):
    t = Tensor("x", "INT8", [1], b"1")
    assert run(lambda _: [t])[0][1].outputs == [t]
    assert run(lambda _: [[t, t]])[0][1].outputs == [t, t]


def test_the_four_steps():
    class Steps(Handler):
        def preprocess(self, requests):
            return [int(r.body) for r in requests]

        def inference(self, data):
            return [n * 2 for n in data]

        def postprocess(self, output):
            return [str(n + 1) for n in output]

    class R:
        body = b"20"

    assert Steps().handle([R()]) == ["41"]


def test_generators_take_turns(read):
    def say(request, count):
        for i in range(count):
            yield f"{request.number}{i}"

    pieces = run(lambda requests: [say(requests[0], 2), "whole", say(requests[2], 1)], 3)
    assert [p.body.decode() for _, p in pieces] == ["whole", "10", "30", "11", "", ""]
    assert sorted(ends(pieces)) == [1, 2, 3]


def test_rounds_of_pieces(read):
    def rounds(requests):
        yield ["a", None]
        yield ["b", "c"]

    pieces = run(rounds, 2)
    assert [(r, p.body) for r, p in pieces] == [(1, b"a"), (1, b"b"), (2, b"c"), (1, b""), (2, b"")]
    ends(pieces)


def test_an_exception_ends_all_open_requests(read):
    def broken(requests):
        yield ["a", "b"]
        raise KeyError("x")

    pieces = run(broken, 2)
    assert ends(pieces) == [1, 2]
    assert all(p.failure.name == "handler_failed" and "KeyError" in p.failure.message for _, p in pieces[2:])
    assert [p.failure.message for _, p in run(lambda _: 1 / 0, 2)] == ["ZeroDivisionError: division by zero"] * 2


def test_a_stream_that_raises_costs_its_own_request(read):
    def broken():
        yield "a"
        raise RuntimeError("b")

    def well():
        yield "c"
        yield "d"

    pieces = run(lambda _: [broken(), well()], 2)
    assert sorted(ends(pieces)) == [1, 2]
    assert [p.failure is not None for _, p in pieces if p.is_last] == [True, False]


@pytest.mark.parametrize("made", [lambda _: ["only one"], lambda _: "text", lambda _: None])
def test_too_few_answers_fail_the_batch(read, made):
    pieces = run(made, 2)
    assert ends(pieces) == [1, 2] and all(p.failure for _, p in pieces)


def test_an_answer_that_is_none_fails_its_request_alone(read):
    large = b"x" * (inference.BYTES_MAX + 1)
    pieces = run(lambda _: [object(), large, RequestError("no", 422), "well"], 4)
    assert [p.failure.name if p.failure else None for _, p in pieces] == ["handler_failed", "handler_failed", "unprocessable", None]
    ends(pieces)


def test_a_cancelled_stream_is_closed_and_ended(read):
    closed, link = [], FakeLink()

    def endless():
        try:
            yield "x"
            link.cancelled.add(1)
            while True:
                yield "y"
        finally:
            closed.append(True)

    pieces = run(lambda _: [endless()], link=link)
    assert closed and ends(pieces) == [1]
    assert [p.body for _, p in pieces] == [b"x", b"y", b""]


def test_a_lost_server_closes_the_generators(read):
    closed = []

    def endless():
        try:
            while True:
                yield "x"
        finally:
            closed.append(True)

    with pytest.raises(Void):
        run(lambda _: [endless()], link=FakeLink(void_after=2))
    with pytest.raises(Void):
        run(lambda _: ([x] for x in endless()), link=FakeLink(void_after=2))
    assert len(closed) == 2


def test_an_unencodable_answer_is_an_error_of_its_request():
    pieces = run(lambda _: [Response(b"x", parameters={"a": object()}), Response("text"), Inferred(body=b"well")], 3)
    assert len(pieces) == 3  # really encoded here
