"""Errors, with the numbers and names of docs/reference/protocol.md."""

from __future__ import annotations

from typing import Optional


class BatonError(Exception):
    """The server's rejection, or the failure of an answer that had begun.

    `code`, `name`: the row of the error table. `param`: the offending request field, "" if none.
    `retryable`: the same request may succeed later. `retry_after`: seconds, None if the server gave none.
    """

    def __init__(
        self,
        code: int,
        name: str,
        message: str,
        *,
        param: str = "",
        retryable: bool = False,
        retry_after: Optional[float] = None,
    ):
        super().__init__(f"{name}: {message}" if message else name)
        self.code = code
        self.name = name
        self.message = message
        self.param = param
        self.retryable = retryable
        self.retry_after = retry_after


class LinkDown(BatonError):
    """The server cannot be reached, or the connection is lost: connect again."""

    def __init__(self, message: str):
        super().__init__(73, "link_down", message, retryable=True)


class BadFrame(BatonError):
    """The server sent a message that this client cannot read."""

    def __init__(self, message: str):
        super().__init__(71, "bad_frame", message)


class SlowReader(BatonError):
    """This stream was left unread beyond its bound and has been cancelled; others continue."""

    def __init__(self, message: str):
        super().__init__(52, "slow_reader", message)


class DeadlineExceeded(BatonError):
    """No data within the timeout. The stream itself continues: call again or cancel it."""

    def __init__(self, message: str):
        super().__init__(51, "deadline_exceeded", message, retryable=True)
