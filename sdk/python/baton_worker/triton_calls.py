"""Calls of other models from within `execute`, as in Triton's Python backend ("BLS"). They reach worker models, and the cluster's language
models with the tensors of Triton's vLLM backend, through the gateway."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence

from baton_client.errors import BatonError
from baton_client.inference import Inferred

from .handler import Context
from .triton_values import InferenceResponse, Tensor, TritonError, TritonModelException

TRITONSERVER_MEMORY_CPU, TRITONSERVER_MEMORY_GPU = 0, 2
# Limit for the next piece of a called model. The caller has its own response_timeout, usually shorter.
SILENCE_SECONDS_MAX = 600.0

_log = logging.getLogger("baton_worker")
_has_logged_no_gpu = False
_context: Optional[Context] = None
_client: Any = None
_lock = threading.Lock()


def calls_from(context: Context) -> None:
    """Sets the calling worker; its first call connects."""
    global _context, _client
    with _lock:
        _context, _client = context, None


def _shared_client() -> Any:
    global _client
    with _lock:
        if _client is None:
            if _context is None:
                raise TritonModelException("no model is served yet")
            _client = _context.client()
        return _client


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


class PreferredMemory:
    """The preferred memory for the outputs of a call: a GPU only if torch, imported by the model, finds one."""

    def __init__(self, preferred_memory_type: int, preferred_device_id: int = 0):
        if preferred_memory_type not in (TRITONSERVER_MEMORY_CPU, TRITONSERVER_MEMORY_GPU):
            raise TypeError("preferred_memory_type is TRITONSERVER_MEMORY_CPU or TRITONSERVER_MEMORY_GPU")
        self.type, self.device_id = preferred_memory_type, preferred_device_id

    def moved(self, tensor: Tensor) -> Tensor:
        global _has_logged_no_gpu
        if self.type != TRITONSERVER_MEMORY_GPU:
            return tensor
        there = tensor.preferred_on(self.device_id)
        if there.is_cpu() and there.triton_dtype() != "BYTES" and not _has_logged_no_gpu:
            _has_logged_no_gpu = True
            _log.warning("preferred_memory: the model has not imported torch, or torch finds no GPU %s: outputs are on the CPU", self.device_id)
        return there


class InferenceTrace:
    """The trace of an untraced request, as in Triton."""

    def get_context(self) -> None:
        return None


class ResponseIterator:
    """The responses of a call, as they arrive. A failure is the last of them. Leaving it early, or `cancel`, cancels the call."""

    def __init__(self, pieces: Any, model: str, preferred_memory: PreferredMemory):
        self._pieces, self._model, self._preferred = pieces, model, preferred_memory

    def __iter__(self) -> Iterator[InferenceResponse]:
        return self

    def __next__(self) -> InferenceResponse:
        try:
            for piece in self._pieces:
                if piece.outputs or piece.body or not piece.is_last:
                    return self._response_of(piece)
        except BatonError as wrong:
            self.cancel()
            return _failed(wrong)
        raise StopIteration

    def cancel(self) -> None:
        """No further response."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()
        self._pieces = iter(())

    def _response_of(self, piece: Inferred) -> InferenceResponse:
        try:
            if piece.body:
                raise ValueError("it is a body, not tensors: ask it by baton_client")
            outputs = [self._preferred.moved(Tensor.of_wire(t)) for t in piece.outputs]
            return InferenceResponse(outputs, parameters=dict(piece.parameters))
        except (ValueError, TritonModelException) as wrong:
            self.cancel()
            return InferenceResponse(error=TritonError(f"the answer of '{self._model}': {wrong}", TritonError.UNSUPPORTED))


class InferenceRequest:
    """A call of another model."""

    def __init__(
        self,
        request_id: str = "",
        correlation_id: Any = 0,
        inputs: Optional[Sequence[Tensor]] = None,
        requested_output_names: Optional[Sequence[str]] = None,
        model_name: Optional[str] = None,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: Optional[PreferredMemory] = None,
        trace: Optional[InferenceTrace] = None,
        parameters: Optional[Dict[str, Any]] = None,
    ):
        """timeout: microseconds, as for Triton's clients. It bounds the queueing of a worker model, and the whole answer of a language
        model.

        Names may be bytes, like the elements of a BYTES tensor."""
        for name, value in (("model_name", model_name), ("inputs", inputs), ("requested_output_names", requested_output_names)):
            if value is None:
                raise TypeError(f"InferenceRequest: {name} is missing")
        if parameters is not None and not isinstance(parameters, dict):
            raise TritonModelException(f"parameters are a dict, not a {type(parameters).__name__}")
        self._model, self._id, self._version, self._timeout = _text(model_name), _text(request_id), int(model_version), int(timeout)
        self._outputs, self._inputs = [_text(name) for name in requested_output_names or ()], list(inputs or ())
        for name, wrong in (("Input tensor", None in self._inputs), ("Requested output name", "" in self._outputs)):
            if wrong:
                raise TritonModelException(f"{name} for request with id '{self._id}' and model name '{self._model}' should not be empty.")
        if correlation_id:
            raise TritonModelException("a correlation id other than 0 is refused: no model here has sequences")
        self._preferred = preferred_memory or PreferredMemory(TRITONSERVER_MEMORY_CPU)
        self._parameters = dict(parameters or {})
        self.set_flags(flags)

    def model_name(self) -> str:
        return self._model

    def model_version(self) -> int:
        return self._version

    def request_id(self) -> str:
        return self._id

    def correlation_id(self) -> int:
        return 0

    def flags(self) -> int:
        return 0

    def set_flags(self, flags: int) -> None:
        if flags:
            raise TritonModelException("the flags of a sequence's start and end are refused: no model here has sequences")

    def timeout(self) -> int:
        return self._timeout

    def inputs(self) -> List[Tensor]:
        return self._inputs

    def requested_output_names(self) -> List[str]:
        return self._outputs

    def parameters(self) -> str:
        return json.dumps(self._parameters)

    def exec(self, decoupled: bool = False) -> Any:
        """The response, or an iterator over those of a decoupled model."""
        responses = self._asked()
        if decoupled:
            return responses
        first = next(responses, InferenceResponse())
        second = None if first.has_error() else next(responses, None)
        responses.cancel()
        if second is None or second.has_error():
            return second or first
        why = f"the model '{self._model}' answers with more than one response: exec(decoupled=True)"
        return InferenceResponse(error=TritonError(why, TritonError.UNSUPPORTED))

    async def async_exec(self, decoupled: bool = False) -> Any:
        """Other calls may run meanwhile; the iterator of a decoupled model blocks, as in Triton."""
        return await asyncio.to_thread(self.exec, decoupled)

    def _asked(self) -> ResponseIterator:
        parameters = dict(self._parameters, **({"timeout": self._timeout} if self._timeout else {}))
        try:
            pieces = _shared_client().infer_stream(
                self._model,
                [t.to_wire() for t in self._inputs],
                version="" if self._version < 0 else str(self._version),
                outputs=self._outputs,
                parameters=parameters,
                request_id=self._id,
                timeout=SILENCE_SECONDS_MAX,
            )
        except BatonError as wrong:
            pieces = _refused(wrong)
        return ResponseIterator(pieces, self._model, self._preferred)


def _refused(wrong: BatonError) -> Iterator[Inferred]:
    raise wrong
    yield


# The caller's errors are below this number (schema/error.cpp).
_CALLERS_MAX = 30
_CODES = {6: TritonError.NOT_FOUND, 7: TritonError.NOT_FOUND, 50: TritonError.CANCELLED, 52: TritonError.CANCELLED}


def _failed(wrong: BatonError) -> InferenceResponse:
    code = TritonError.UNAVAILABLE if wrong.retryable else TritonError.INTERNAL
    if wrong.code in _CODES:
        code = _CODES[wrong.code]
    elif wrong.code < _CALLERS_MAX and not wrong.retryable:
        code = TritonError.INVALID_ARG
    return InferenceResponse(error=TritonError(str(wrong), code))
