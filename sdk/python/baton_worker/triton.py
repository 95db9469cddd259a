"""Serves an unmodified model.py of Triton's Python backend as a worker; needs numpy.

`import triton_python_backend_utils as pb_utils` gets this module: tensors, requests, responses, errors and response senders of
decoupled models. It also has calls of other models (`InferenceRequest.exec`, "BLS"). The file config.pbtxt is read beside the version's directory; nodes.toml has its
batching settings.

    python3 -m baton_worker.triton REPOSITORY/MODEL/1/model.py [--config CONFIG.pbtxt]
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
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Sequence, Union

from .needs import need

need("numpy")
import numpy  # noqa: E402

from baton_client import tensors

from . import metrics, pbtxt
from .handler import Context, Handler, Request, RequestError, Response
from .metrics import COUNTER, GAUGE, HISTOGRAM
from .start import load_module, start
from .triton_calls import (  # noqa: F401: models import them from here
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    InferenceRequest,
    InferenceTrace,
    PreferredMemory,
    calls_from,
)
from .triton_config import ModelConfig, whole
from .triton_reshape import Reshapes
from .triton_values import InferenceResponse, Tensor, TritonError, TritonModelException  # noqa: F401

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

_log = logging.getLogger("baton_worker")
_context: Optional[Context] = None
_model_dir = ""


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
    """Metrics with one name, shown at the gateway's /metrics until the model is unloaded."""

    COUNTER, GAUGE, HISTOGRAM = COUNTER, GAUGE, HISTOGRAM

    def __init__(self, name: str, description: str, kind: str):
        if kind not in (COUNTER, GAUGE, HISTOGRAM):
            raise TritonModelException(f"the metric '{name}' cannot be a {kind}: it is a COUNTER, a GAUGE or a HISTOGRAM")
        with _as_model_exception():
            all = _metrics()
            self._family: Union[metrics.Family, metrics.HistogramFamily] = (
                all.histogram(name, description) if kind == HISTOGRAM else all.family(kind, name, description)
            )

    def Metric(self, labels: Optional[Dict[str, str]] = None, buckets: Optional[Sequence[float]] = None) -> "Metric":
        """`buckets`: required for a histogram, and not allowed for others."""
        with _as_model_exception():
            if isinstance(self._family, metrics.HistogramFamily):
                if buckets is None:
                    raise TritonModelException(f"the histogram '{self._family.name}' needs buckets")
                return Metric(self._family.of(labels or {}, buckets))
            if buckets is not None:
                raise TritonModelException(f"the {self._family.kind} '{self._family.name}' has no buckets: they are a histogram's")
            return Metric(self._family.of(labels or {}))


class Metric:
    def __init__(self, of: Union[metrics.Metric, metrics.Histogram]):
        self._of = of

    def increment(self, value: float) -> None:
        with _as_model_exception():
            self._single("incremented").increment(value)

    def set(self, value: float) -> None:
        with _as_model_exception():
            self._single("set").set(value)

    def observe(self, value: float) -> None:
        if not isinstance(self._of, metrics.Histogram):
            raise TritonModelException("only a histogram can be observed")
        with _as_model_exception():
            self._of.observe(value)

    def value(self) -> float:
        """The value in this process."""
        return self._single("read").value

    def _single(self, how: str) -> metrics.Metric:
        if isinstance(self._of, metrics.Histogram):
            raise TritonModelException(f"a histogram cannot be {how}, only observed")
        return self._of


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


class ResponseSender:
    """For a decoupled model: any number of responses, then the final flag."""

    def __init__(self, request: Request, reshapes: Reshapes):
        self._request, self._reshapes = request, reshapes
        self.is_final = threading.Event()

    def send(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        if self.is_final.is_set():
            raise TritonModelException("a response behind the final one")
        if response is not None:
            self._request.send(_response_of(response, self._request, self._reshapes))
        if flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL:
            self.is_final.set()

    def is_cancelled(self) -> bool:
        return self._request.is_cancelled


class ReceivedRequest:
    """The request that `execute` receives."""

    def __init__(self, request: Request, reshapes: Reshapes):
        self._request, self.reshapes = request, reshapes
        self._inputs = [Tensor.of_wire(reshapes.to_model(t)) for t in request.inputs]
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

    def set_release_flags(self, flags: int) -> None:
        if flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE:
            raise TritonModelException("a request cannot be rescheduled: no model here has iterative sequences. A generator loops within `execute`")

    def timeout(self) -> int:
        """Microseconds; 0: not set."""
        given = self._request.parameters.get("timeout", 0)
        return given if isinstance(given, int) else 0

    def requested_output_names(self) -> List[str]:
        return self._request.outputs

    def parameters(self) -> str:
        return json.dumps(dict(self._request.parameters))

    def trace(self) -> InferenceTrace:
        return InferenceTrace()

    def is_cancelled(self) -> bool:
        return self._request.is_cancelled

    def last_response(self) -> Response:
        """The last response of a request that uses its sender."""
        self.get_response_sender().is_final.wait()
        return Response()

    def get_response_sender(self) -> ResponseSender:
        if self.sender is None:
            self.sender = ResponseSender(self._request, self.reshapes)
        return self.sender


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


# Triton's datatype numbers.
_NUMPY_TYPES = ("bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "object_")


def triton_to_numpy_type(data_type: int) -> Any:
    return getattr(numpy, _NUMPY_TYPES[data_type - 1]) if 0 < data_type <= len(_NUMPY_TYPES) else None


def numpy_to_triton_type(data_type: Any) -> Optional[int]:
    known = {getattr(numpy, name): i + 1 for i, name in enumerate(_NUMPY_TYPES)}
    return known.get(numpy.object_ if data_type == numpy.bytes_ else numpy.dtype(data_type).type)


def serialize_byte_tensor(input_tensor: Any) -> Any:
    """As in Triton: () for an empty array, None for one whose elements are not bytes or texts."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype.kind not in "OS":
        return None
    return tensors.pack_elements([one if isinstance(one, bytes) else str(one) for one in input_tensor.reshape(-1).tolist()])


def deserialize_bytes_tensor(encoded_tensor: bytes) -> Any:
    """Raises TritonModelException."""
    try:
        return numpy.array([*tensors.unpack_elements(bytes(encoded_tensor)), None], dtype=object)[:-1]
    except ValueError as wrong:
        raise TritonModelException(str(wrong)) from wrong


def get_model_dir() -> str:
    return _model_dir


def _no_model_control(what: str) -> NoReturn:
    raise TritonModelException(f"{what}: a model cannot load others here; the model repository's own calls, or its polling, do (docs/operate/model-repository.md)")


def load_model(model_name: str, config: str = "", files: Optional[Dict[str, bytes]] = None) -> None:
    _no_model_control(f"load_model('{model_name}')")


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    _no_model_control(f"unload_model('{model_name}')")


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    _no_model_control(f"is_model_ready('{model_name}')")


def _response_of(response: InferenceResponse, request: Request, reshapes: Reshapes) -> Any:
    error = response.error()
    if error is not None:
        return RequestError(error.message(), error.code())
    wanted = request.outputs
    outputs = [t for t in response.output_tensors() if not wanted or t.name() in wanted]
    try:
        return Response(outputs=[reshapes.to_client(t.to_wire()) for t in outputs], parameters=response.response_parameters())
    except (ValueError, TritonModelException) as wrong:  # fails this answer alone
        return RequestError(str(wrong), 500)


def _kind_of(config: Dict[str, Any], context: Context) -> str:
    if context.gpu_id is not None:
        return "GPU"
    groups = config.get("instance_group", [])
    return "MODEL" if groups and all(one.get("kind") == "KIND_MODEL" for one in groups) else "CPU"


class TritonHandler(Handler):
    """Connects a TritonPythonModel with the worker's loop."""

    def __init__(self, model: Any, config: Dict[str, Any], version_dir: Path):
        self._model, self._config, self._dir = model, config, version_dir
        self._reshapes = Reshapes(config)

    def initialize(self, context: Context) -> None:
        global _context, _model_dir
        _context, _model_dir = context, str(self._dir)
        calls_from(context)
        if hasattr(self._model, "initialize"):
            self._model.initialize(
                {
                    "model_config": json.dumps(self._config),
                    "model_instance_kind": _kind_of(self._config, context),
                    "model_instance_name": context.name,
                    "model_instance_device_id": str(context.gpu_id or 0),
                    "model_repository": str(self._dir.parent),
                    "model_version": context.version,
                    "model_name": context.model,
                }
            )

    def handle(self, requests: List[Request]) -> Any:
        received = [_received(r, self._reshapes) for r in requests]
        refused = [one for one in received if isinstance(one, RequestError)]
        if refused:
            rest = iter(self.handle([r for r, one in zip(requests, received) if not isinstance(one, RequestError)]) if len(refused) < len(requests) else ())
            return [one if isinstance(one, RequestError) else next(rest) for one in received]
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
            _response_of(response, request, self._reshapes) if response is not None else one.last_response()
            for response, request, one in zip(made, requests, received)
        ]

    def finalize(self) -> None:
        if hasattr(self._model, "finalize"):
            self._model.finalize()


def _received(request: Request, reshapes: Reshapes) -> Any:
    """An unreadable request fails alone."""
    try:
        return ReceivedRequest(request, reshapes)
    except (ValueError, TritonModelException) as wrong:
        return RequestError(str(wrong))


async def _finished(made: Any) -> Any:
    return await made


def _note_what_is_unused(config: Dict[str, Any], model: Any) -> None:
    if "EXECUTION_ENV_PATH" in config["parameters"]:
        _log.warning("config.pbtxt: parameters.EXECUTION_ENV_PATH is not used: the model runs in the Python of its command, %s", sys.executable)
    if hasattr(model, "is_ready"):
        _log.warning("is_ready of the model is not asked: it is ready once `initialize` has returned")


def module_of(file: Path) -> ModuleType:
    """The module of a model.py, which finds this one as triton_python_backend_utils."""
    here: ModuleType = sys.modules[__name__]
    sys.modules["triton_python_backend_utils"] = here
    sys.path.append(str(file.parent.parent))  # the model's directory, as in Triton
    return load_module(str(file), file.parent.name if file.parent.name.isdecimal() else "model_version")


def completed(model: Any, config: Dict[str, Any]) -> Dict[str, Any]:
    """The config with what the model's auto_complete_config adds, if it has one. Raises ValueError, and what the model raises."""
    complete = getattr(model, "auto_complete_config", None)
    if complete is None:
        return config
    made = complete(ModelConfig(config))
    if not isinstance(made, ModelConfig):
        raise ValueError("auto_complete_config returns the model config that it was given")
    return made.as_dict()


def make(context: Context) -> Handler:
    parser = argparse.ArgumentParser(prog="baton_worker.triton")
    parser.add_argument("model")
    parser.add_argument("--config", default=None)
    try:
        options = parser.parse_args(list(context.options))
    except SystemExit as wrong:
        raise ValueError("the options of baton_worker.triton") from wrong
    file = Path(options.model).resolve()
    module = module_of(file)
    config = whole({"name": context.model, **(pbtxt.beside(file, options.config) or {})})
    _note_what_is_unused(config, module.TritonPythonModel)
    config = completed(module.TritonPythonModel, config)
    return TritonHandler(module.TritonPythonModel(), config, file.parent)


if __name__ == "__main__":
    from baton_worker.triton import make as make_here  # the module that models import, not __main__

    start(make_here, sys.argv[1:])
