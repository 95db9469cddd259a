"""The classes that an author of a worker model implements and uses."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from baton_client.errors import BatonError
from baton_client.inference import Infer, Inferred, json_of
from baton_client.tensors import Tensor

from .metrics import Metrics


def gpu_of_environment() -> Optional[int]:
    number = os.environ.get("BATON_WORKER_GPU_ID", "")
    return int(number) if number else None


@dataclass
class Context:
    """This worker's place in the cluster: `[[workers]]` of nodes.toml, and its own options."""

    model: str
    version: str
    name: str  # of this process
    batch_size: int
    door: str  # the gateway's ZeroMQ API, for calls of other models; "" if there is none
    options: Sequence[str] = ()  # of the command line, after the handler's file
    metrics: Metrics = field(default_factory=Metrics)  # its metrics, for the gateway's /metrics
    gpu_id: Optional[int] = None  # its device: "cuda:N" of torch; None: the CPU

    @classmethod
    def of_environment(cls, options: Sequence[str] = ()) -> "Context":
        """Raises KeyError if it was not started by `cluster up`."""
        env = os.environ
        return cls(
            model=env["BATON_WORKER_MODEL"],
            version=env["BATON_WORKER_VERSION"],
            name=env["BATON_WORKER_NAME"],
            batch_size=int(env["BATON_WORKER_BATCH_SIZE"]),
            door=env.get("BATON_DOOR", ""),
            options=options,
            gpu_id=gpu_of_environment(),
        )

    def client(self, **options: Any) -> Any:
        """A baton_client.Client for other models of the cluster, including LLMs.

        A worker that calls its own model waits for another process of that model; with count = 1 there is none, and the call ends by its
        deadline. If the gateway requires keys, the client sends BATON_API_KEY unless `options` has an api_key.
        """
        from baton_client import Client

        if not self.door:
            raise BatonError(90, "bad_config", "gateway.zmq is empty: there is no ZeroMQ server to ask")
        options.setdefault("api_key", os.environ.get("BATON_API_KEY", ""))
        return Client(self.door, name=self.name, **options)


class Request:
    """One client's request."""

    def __init__(
        self, asked: Infer, is_cancelled: Callable[[], bool], send: Callable[[Any], None]
    ):
        self.inputs: List[Tensor] = asked.inputs
        self.outputs: List[str] = asked.outputs  # requested outputs; none: all
        self.body: bytes = asked.body
        self.content_type: str = asked.content_type
        self.headers: List[Tuple[str, str]] = asked.headers
        self._asked = asked
        self.id: str = asked.request_id
        self.number: int = asked.request
        self._is_cancelled = is_cancelled
        self._send = send

    @property
    def is_cancelled(self) -> bool:
        """The client no longer waits for the answer."""
        return self._is_cancelled()

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._asked.parameters

    def send(self, piece: Any) -> None:
        """Sends a piece at once; the handler's return value for the request is the last piece."""
        self._send(piece)

    def json(self) -> Any:
        return json.loads(self.body)

    def tensor(self, name: str) -> Tensor:
        for tensor in self.inputs:
            if tensor.name == name:
                return tensor
        raise RequestError(f"there is no input named '{name}'")


class Unusable(Exception):
    """Raised by `initialize` with a reason if another attempt cannot help. The process ends for good."""


class RequestError(Exception):
    """A request that cannot be answered, with the reason: raised for a whole batch, or returned as one answer. `status`: of HTTP APIs."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message)
        self.status = status


@dataclass
class Response:
    """An answer, or a piece of one, with metadata."""

    body: bytes = b""
    content_type: str = ""
    outputs: List[Tensor] = field(default_factory=list)
    headers: List[Tuple[str, str]] = field(default_factory=list)
    parameters: Dict[str, Any] = field(default_factory=dict)
    status: int = 0


class Handler:
    """The four steps of TorchServe's handlers. Each gets all requests of a batch.

    `inference`, or whatever `handle` consists of, returns a list with one answer for each request. `None` in a yielded list means no piece
    for that request this time. An answer is bytes, str, a Tensor, a list of Tensors, a dict or list (sent as JSON), a Response or a
    RequestError. It may be a generator of these, whose pieces are sent as they are made. `inference` itself may be a generator of such
    lists.
    """

    def initialize(self, context: Context) -> None:
        self.context = context

    def preprocess(self, requests: List[Request]) -> Any:
        return requests

    def inference(self, data: Any) -> Any:
        raise NotImplementedError("a handler has at least `inference`")

    def postprocess(self, output: Any) -> Any:
        return output

    def handle(self, requests: List[Request]) -> Any:
        return self.postprocess(self.inference(self.preprocess(requests)))

    def finalize(self) -> None:
        """Called before an orderly shutdown."""


def piece_of(value: Any) -> Inferred:
    """Raises TypeError for a value that is no answer."""
    if isinstance(value, Response):
        return Inferred(
            outputs=value.outputs,
            body=value.body,
            content_type=value.content_type,
            headers=value.headers,
            parameters_json=json_of(value.parameters),
            status=value.status,
        )
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Inferred(body=bytes(value), content_type="application/octet-stream")
    if isinstance(value, str):
        return Inferred(body=value.encode(), content_type="text/plain; charset=utf-8")
    if isinstance(value, Tensor):
        return Inferred(outputs=[value])
    if isinstance(value, list) and value and all(isinstance(one, Tensor) for one in value):
        return Inferred(outputs=value)
    if isinstance(value, (dict, list, tuple, int, float, bool)):
        return Inferred(body=json.dumps(value).encode(), content_type="application/json")
    if isinstance(value, Exception):
        return Inferred(failure=failure_of(value))
    raise TypeError(f"a handler cannot answer a {type(value).__name__}")


def failure_of(wrong: BaseException) -> BatonError:
    """The error that the client of a request receives."""
    if isinstance(wrong, RequestError):
        code = {400: (1, "invalid_request"), 404: (6, "not_found"), 422: (11, "unprocessable")}
        if wrong.status in code:
            return BatonError(*code[wrong.status], str(wrong))
        return BatonError(57, "handler_failed", str(wrong))
    if isinstance(wrong, BatonError):  # of another model that was called
        return wrong
    return BatonError(57, "handler_failed", f"{type(wrong).__name__}: {wrong}")
