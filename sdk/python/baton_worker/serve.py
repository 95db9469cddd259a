"""The loop of a worker process: receives batches, sends pieces, and ends every request with one terminal piece."""

from __future__ import annotations

import inspect
import logging
import signal
import threading
from typing import Any, Dict, Iterator, List, Optional

from baton_client import inference
from baton_client.inference import Inferred

from .group import Leader
from .handler import Handler, Request, failure_of, piece_of
from .link import Batch, Link, Void

log = logging.getLogger("baton_worker")


class Answers:
    """The answers to one batch: numbers the pieces, and ends each request once. `in_step`: other ranks run the same batch, so it is
    computed to the end even if its answers are no longer wanted."""

    def __init__(self, link: Link, batch: Batch, group: Optional[Leader] = None):
        self._link = link
        self._group = group
        self.in_step = group is not None and group.hands_on
        self._batch = batch
        self._next: Dict[int, int] = {item.request: 0 for item in batch.items}
        self._lock = threading.Lock()  # handlers may send from their own threads

    @property
    def open(self) -> List[int]:
        return list(self._next)

    def say(self, request: int, value: Any, is_last: bool) -> None:
        """No effect once the request has ended. Raises Void."""
        with self._lock:
            self._say(request, value, is_last)

    def _say(self, request: int, value: Any, is_last: bool) -> None:
        if request not in self._next:
            return
        index = self._next[request]
        try:
            piece = value if isinstance(value, Inferred) else piece_of(value)
            inference.check(piece)
            piece.index, piece.is_last = index, is_last or piece.failure is not None
            body = inference.inferred(request, piece)
        except Exception as wrong:  # an invalid answer fails its own request alone
            piece = Inferred(failure=failure_of(wrong), index=index)
            body = inference.inferred(request, piece)
        self._next[request] += 1
        if piece.is_last:
            del self._next[request]
        try:
            self._link.put(self._batch, body)
        except Void:
            if not self.in_step:
                raise

    def end(self, request: int) -> None:
        """Sends an empty last piece, since the previous one was not marked as last."""
        self.say(request, Inferred(), is_last=True)

    def fail(self, wrong: BaseException, *requests: int) -> None:
        """Fails these requests, or all open ones, with the handler's exception."""
        if self._group is not None:
            self._group.end_if_lost()
        for request in requests or self.open:
            self.say(request, wrong, is_last=True)


def run_batch(handler: Handler, link: Link, batch: Batch, group: Optional[Leader] = None) -> None:
    """Raises Void, unless it runs in step with other ranks."""
    answers = Answers(link, batch, group)
    requests = [
        Request(
            item,
            lambda number=item.request: not answers.in_step and link.is_cancelled(batch, number),
            lambda piece, number=item.request: answers.say(number, piece, is_last=False),
        )
        for item in batch.items
    ]
    try:
        made = handler.handle(requests)
        if inspect.isgenerator(made):
            _stream_rounds(made, answers, requests)
        else:
            _answer_once(made, answers, requests)
    except Void:
        raise
    except Exception as wrong:
        log.exception("the handler raised")
        answers.fail(wrong)


def _one_each(made: Any, requests: List[Request]) -> List[Any]:
    if not isinstance(made, (list, tuple)):
        raise TypeError(f"a handler returns a list of answers, not a {type(made).__name__}")
    if len(made) != len(requests):
        raise ValueError(f"the handler answered {len(made)} of {len(requests)} requests")
    return list(made)


def _stream_rounds(rounds: Iterator[Any], answers: Answers, requests: List[Request]) -> None:
    """Consumes lists with the next piece of each request."""
    try:
        for made in rounds:
            for request, value in zip(requests, _one_each(made, requests)):
                if value is not None:
                    answers.say(request.number, value, is_last=False)
            if all(request.is_cancelled for request in requests):
                break
    finally:
        rounds.close()  # type: ignore[attr-defined]
    for number in answers.open:
        answers.end(number)


def _answer_once(made: Any, answers: Answers, requests: List[Request]) -> None:
    """Advances the generators among the answers in turn, one piece each."""
    streams: Dict[int, Any] = {}
    for request, value in zip(requests, _one_each(made, requests)):
        if inspect.isgenerator(value):
            streams[request.number] = (request, value)
        else:
            answers.say(request.number, value, is_last=True)
    try:
        while streams:
            for number, (request, stream) in list(streams.items()):
                if not _advance(answers, request, stream):
                    del streams[number]
                    stream.close()
    finally:
        for _, stream in streams.values():
            stream.close()


def _advance(answers: Answers, request: Request, stream: Any) -> bool:
    if request.is_cancelled:
        answers.end(request.number)
        return False
    try:
        value = next(stream)
    except StopIteration:
        answers.end(request.number)
        return False
    except Exception as wrong:
        log.exception("a handler's stream raised")
        answers.fail(wrong, request.number)
        return False
    answers.say(request.number, value, is_last=False)
    return answers.in_step or request.number in answers.open


def serve(handler: Handler, link: Link, group: Optional[Leader] = None) -> None:
    """Serves until SIGTERM, or until the link is permanently lost (BatonError)."""
    signal.signal(signal.SIGTERM, lambda *_: link.leave())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: the root drains, and logs it
    while True:
        batch: Optional[Batch] = link.next_batch()
        if batch is None:
            break
        try:
            if group is not None and group.hands_on:
                group.hand_on(batch.packet)
            run_batch(handler, link, batch, group)
        except Void:
            log.warning("a batch was lost with its door")
    handler.finalize()
    link.close()
