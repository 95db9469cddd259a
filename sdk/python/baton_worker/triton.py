"""A model.py of Triton's Python backend, unmodified, as a worker; needs numpy:

    python3 -m baton_worker.triton REPOSITORY/MODEL/1/model.py [--config CONFIG.pbtxt]

`import triton_python_backend_utils as pb_utils` finds what is here: tensors, requests, responses, errors,
response senders of decoupled models, calls of other worker models (`InferenceRequest.exec`, "BLS").
config.pbtxt is looked for beside the version's directory; what it says of batching is said in nodes.toml.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import json
import logging
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy

from baton_client import tensors
from baton_client.errors import BatonError

from . import metrics, pbtxt
from .handler import Context, Handler, Request, RequestError, Response
from .metrics import COUNTER, GAUGE
from .start import load_module, start
from .triton_config import ModelConfig

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2

_log = logging.getLogger("baton_worker")
_context: Optional[Context] = None
_model_dir = ""
_client: Any = None
_client_lock = threading.Lock()


class TritonModelException(Exception):
    pass


class TritonError:
    """An answer's failure. The codes are HTTP's here."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED = 500, 500, 404, 400, 503, 501
    ALREADY_EXISTS, CANCELLED = 409, 499

    def __init__(self, message: str, code: int = INTERNAL):
        self._message, self._code = str(message), code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class Logger:
    INFO, WARNING, ERROR, VERBOSE = logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG

    @classmethod
    def log(cls, message: str, level: int = logging.INFO) -> None:
        _log.log(level, message)

    @classmethod
    def log_info(cls, message: str) -> None:
        cls.log(message, cls.INFO)

    @classmethod
    def log_warn(cls, message: str) -> None:
        cls.log(message, cls.WARNING)

    @classmethod
    def log_error(cls, message: str) -> None:
        cls.log(message, cls.ERROR)

    @classmethod
    def log_verbose(cls, message: str) -> None:
        cls.log(message, cls.VERBOSE)


class MetricFamily:
    """Metrics of one name, shown at the gateway's /metrics. They stay there until the model goes."""

    COUNTER, GAUGE, HISTOGRAM = COUNTER, GAUGE, "histogram"

    def __init__(self, name: str, description: str, kind: str):
        if kind not in (COUNTER, GAUGE):
            raise TritonModelException(f"the metric '{name}' cannot be a {kind}: a counter or a gauge can be told")
        with _as_model_exception():
            self._family = _metrics().family(kind, name, description)

    def Metric(self, labels: Optional[Dict[str, str]] = None) -> "Metric":
        with _as_model_exception():
            return Metric(self._family.of(labels or {}))


class Metric:
    def __init__(self, of: metrics.Metric):
        self._of = of

    def increment(self, value: float) -> None:
        with _as_model_exception():
            self._of.increment(value)

    def set(self, value: float) -> None:
        with _as_model_exception():
            self._of.set(value)

    def value(self) -> float:
        """As this process has counted it."""
        return self._of.value


@contextlib.contextmanager
def _as_model_exception() -> Iterator[None]:
    try:
        yield
    except metrics.MetricError as wrong:
        raise TritonModelException(str(wrong)) from None


def _metrics() -> metrics.Metrics:
    if _context is None:
        raise TritonModelException("no model is served yet: metrics are made in `initialize`")
    return _context.metrics


class Tensor:
    def __init__(self, name: str, array: Any):
        self._name, self._array = name, numpy.asarray(array)

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._array

    def is_cpu(self) -> bool:
        return True

    def shape(self) -> Sequence[int]:
        return self._array.shape

    def triton_dtype(self) -> str:
        return tensors.Tensor.of(self._name, self._array).datatype


class InferenceResponse:
    def __init__(self, output_tensors: Sequence[Tensor] = (), error: Optional[TritonError] = None, parameters: Any = None):
        self._outputs, self._error, self._parameters = list(output_tensors), error, parameters

    def output_tensors(self) -> List[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> Optional[TritonError]:
        return self._error

    def parameters(self) -> str:
        return json.dumps(self._parameters or {})


class ResponseSender:
    """Of a decoupled model: any number of responses, then the mark of the last."""

    def __init__(self, request: Request):
        self._request = request
        self.is_final = threading.Event()

    def send(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        if self.is_final.is_set():
            raise TritonModelException("a response behind the final one")
        if response is not None:
            self._request.send(_told(response, self._request))
        if flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL:
            self.is_final.set()

    def is_cancelled(self) -> bool:
        return self._request.is_cancelled


class ReceivedRequest:
    """What `execute` is given."""

    def __init__(self, request: Request):
        self._request = request
        self._inputs = [Tensor(t.name, t.numpy()) for t in request.inputs]
        self.sender: Optional[ResponseSender] = None

    def inputs(self) -> List[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._request.id

    def correlation_id(self) -> int:
        return 0

    def model_name(self) -> str:
        return _context.model if _context else ""

    def model_version(self) -> int:
        return int(_context.version) if _context and _context.version.isdigit() else 1

    def flags(self) -> int:
        return 0

    def timeout(self) -> int:
        """Microseconds; 0: it says none."""
        said = self._request.parameters.get("timeout", 0)
        return said if isinstance(said, int) else 0

    def requested_output_names(self) -> List[str]:
        return self._request.outputs

    def parameters(self) -> str:
        return json.dumps(dict(self._request.parameters))

    def is_cancelled(self) -> bool:
        return self._request.is_cancelled

    def last_response(self) -> Response:
        """Of a request that ends by its sender."""
        self.get_response_sender().is_final.wait()
        return Response()

    def get_response_sender(self) -> ResponseSender:
        if self.sender is None:
            self.sender = ResponseSender(self._request)
        return self.sender


class InferenceRequest:
    """A call of another worker model from within `execute`."""

    def __init__(
        self,
        model_name: str,
        requested_output_names: Sequence[str] = (),
        inputs: Sequence[Tensor] = (),
        request_id: str = "",
        model_version: int = -1,
        parameters: Optional[Dict[str, Any]] = None,
    ):
        self._model, self._outputs, self._inputs = model_name, list(requested_output_names), list(inputs)
        self._id, self._version, self._parameters = request_id, model_version, parameters

    def exec(self, decoupled: bool = False) -> Any:
        """The response, or an iterator over those of a decoupled model."""
        pieces = self._pieces()
        return pieces if decoupled else next(pieces, InferenceResponse())

    async def async_exec(self, decoupled: bool = False) -> Any:
        return await asyncio.to_thread(self.exec, decoupled)

    def _pieces(self) -> Any:
        try:
            for piece in _shared_client().infer_stream(
                self._model,
                [tensors.Tensor.of(t.name(), t.as_numpy()) for t in self._inputs],
                version="" if self._version < 0 else str(self._version),
                outputs=self._outputs,
                parameters=self._parameters,
                request_id=self._id,
            ):
                if piece.outputs or not piece.is_last:
                    yield InferenceResponse([Tensor(t.name, t.numpy()) for t in piece.outputs])
        except BatonError as wrong:
            yield InferenceResponse(error=TritonError(str(wrong)))


def _shared_client() -> Any:
    global _client
    with _client_lock:
        if _client is None:
            if _context is None:
                raise TritonModelException("no model is served yet")
            _client = _context.client()
        return _client


def get_input_tensor_by_name(request: ReceivedRequest, name: str) -> Optional[Tensor]:
    return next((t for t in request.inputs() if t.name() == name), None)


def get_output_tensor_by_name(response: InferenceResponse, name: str) -> Optional[Tensor]:
    return next((t for t in response.output_tensors() if t.name() == name), None)


def get_input_config_by_name(model_config: Dict[str, Any], name: str) -> Optional[Dict[str, Any]]:
    return next((p for p in model_config.get("input", []) if p["name"] == name), None)


def get_output_config_by_name(model_config: Dict[str, Any], name: str) -> Optional[Dict[str, Any]]:
    return next((p for p in model_config.get("output", []) if p["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config: Dict[str, Any]) -> bool:
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_string_to_numpy(triton_type: str) -> Any:
    name = triton_type.replace("TYPE_", "").replace("STRING", "BYTES")
    return numpy.object_ if name == "BYTES" else numpy.dtype(tensors.NUMPY_NAMES[name]).type


def get_model_dir() -> str:
    return _model_dir


def _told(response: InferenceResponse, request: Request) -> Any:
    error = response.error()
    if error is not None:
        return RequestError(error.message(), error.code())
    wanted = request.outputs
    outputs = [t for t in response.output_tensors() if not wanted or t.name() in wanted]
    return Response(outputs=[tensors.Tensor.of(t.name(), t.as_numpy()) for t in outputs])


class TritonHandler(Handler):
    """Between a TritonPythonModel and the worker's loop."""

    def __init__(self, model: Any, config: Dict[str, Any], version_dir: Path):
        self._model, self._config, self._dir = model, config, version_dir

    def initialize(self, context: Context) -> None:
        global _context, _model_dir
        _context, _model_dir = context, str(self._dir)
        if hasattr(self._model, "initialize"):
            self._model.initialize(
                {
                    "model_config": json.dumps(self._config),
                    "model_instance_kind": "CPU",
                    "model_instance_name": context.name,
                    "model_instance_device_id": "0",
                    "model_repository": str(self._dir.parent),
                    "model_version": context.version,
                    "model_name": context.model,
                }
            )

    def handle(self, requests: List[Request]) -> Any:
        received = [ReceivedRequest(r) for r in requests]
        made = self._model.execute(received)
        if inspect.iscoroutine(made):
            made = asyncio.run(_finished(made))
        if made is None:
            made = [None] * len(requests)
        if len(made) != len(requests):
            raise ValueError(f"execute gave {len(made)} responses to {len(requests)} requests")
        is_decoupled = using_decoupled_model_transaction_policy(self._config)
        if not is_decoupled and any(m is None and one.sender is None for m, one in zip(made, received)):
            raise ValueError("execute gave no responses, and asked for no sender of them")
        return [
            _told(response, request) if response is not None else one.last_response()
            for response, request, one in zip(made, requests, received)
        ]

    def finalize(self) -> None:
        if hasattr(self._model, "finalize"):
            self._model.finalize()


async def _finished(made: Any) -> Any:
    return await made


def make(context: Context) -> Handler:
    parser = argparse.ArgumentParser(prog="baton_worker.triton")
    parser.add_argument("model")
    parser.add_argument("--config", default=None)
    try:
        options = parser.parse_args(list(context.options))
    except SystemExit as wrong:
        raise ValueError("the options of baton_worker.triton") from wrong
    here: ModuleType = sys.modules[__name__]
    sys.modules["triton_python_backend_utils"] = here
    file = Path(options.model).resolve()
    module = load_module(str(file))
    config = {"name": context.model, **(pbtxt.beside(file, options.config) or {})}
    complete = getattr(module.TritonPythonModel, "auto_complete_config", None)
    if complete is not None:
        completed = complete(ModelConfig(config))
        if not isinstance(completed, ModelConfig):
            raise ValueError("auto_complete_config returns the model config that it was given")
        config = completed.as_dict()
    return TritonHandler(module.TritonPythonModel(), config, file.parent)


if __name__ == "__main__":
    from baton_worker.triton import make as make_here  # the module that models see, not __main__

    start(make_here, sys.argv[1:])
