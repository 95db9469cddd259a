"""Requests and answers of worker models, to frames and back (schema/api.fbs, from Tensor on)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import flatbuffers

from . import codec
from .errors import BatonError
from .tensors import Tensor
from .wire import CancelInfer as wire_cancel_infer
from .wire import Error as wire_error
from .wire import HandlerMetric as wire_metric
from .wire import HandlerMetrics as wire_metrics
from .wire import HeaderField as wire_header
from .wire import Infer as wire_infer
from .wire import Inferred as wire_inferred
from .wire import Tensor as wire_tensor
from .wire.CancelInfer import CancelInfer as WireCancelInfer
from .wire.Credit import Credit as WireCredit
from .wire.Drain import Drain as WireDrain
from .wire.Heartbeat import Heartbeat as WireHeartbeat
from .wire.InferBatch import InferBatch as WireInferBatch
from .wire.Inferred import Inferred as WireInferred
from .wire.MessageKind import MessageKind
from .wire.MetricKind import MetricKind

BYTES_MAX = (16 << 20) - (256 << 10)  # infer_bytes_max of schema/limits.hpp
TENSORS_MAX = 256
DIMENSIONS_MAX = 32
METRICS_MAX = 256  # in one message
HEADERS_MAX = 128
NAME_BYTES_MAX = 1024
HEADER_BYTES_MAX = 8192
PARAMETERS_BYTES_MAX = 64 << 10
REASON_BYTES_MAX = 16 << 10
WHOLE_BYTES, PART_BYTES = 256, 96  # for tables and offsets

Headers = Sequence[Tuple[str, str]]


@dataclass
class Infer:
    """A request to a worker model: tensors, or one body."""

    request: int = 0
    model: str = ""
    version: str = ""
    inputs: List[Tensor] = field(default_factory=list)
    outputs: List[str] = field(default_factory=list)  # requested outputs; none: all
    body: bytes = b""
    content_type: str = ""
    headers: List[Tuple[str, str]] = field(default_factory=list)
    parameters_json: str = ""  # an object, or nothing
    request_id: str = ""
    deadline: float = 0.0  # seconds; 0: none

    @property
    def parameters(self) -> Dict[str, Any]:
        return parameters_of(self.parameters_json)


def parameters_of(text: str) -> Dict[str, Any]:
    """Raises ValueError."""
    return json.loads(text) if text else {}


def json_of(parameters: Optional[Dict[str, Any]]) -> str:
    return json.dumps(parameters) if parameters else ""


@dataclass
class Inferred:
    """A piece of an answer. The last one has is_last; a failure is always the last."""

    outputs: List[Tensor] = field(default_factory=list)
    body: bytes = b""
    content_type: str = ""
    headers: List[Tuple[str, str]] = field(default_factory=list)
    parameters_json: str = ""  # an object, or nothing
    status: int = 0  # HTTP status; 0: none set by the handler
    failure: Optional[BatonError] = None
    index: int = 0
    is_last: bool = True

    @property
    def parameters(self) -> Dict[str, Any]:
        return parameters_of(self.parameters_json)


def size_of(piece: Inferred) -> int:
    """An upper bound of its bytes in a message, computed as by bytes_of in schema/limits.cpp."""
    size = WHOLE_BYTES + PART_BYTES * (len(piece.outputs) + len(piece.headers)) + len(piece.body)
    for t in piece.outputs:
        size += len(t.data) + len(t.name.encode()) + len(t.datatype.encode()) + 8 * len(t.shape)
    texts = [text for pair in piece.headers for text in pair]
    return size + sum(len(text.encode()) for text in (*texts, piece.content_type, piece.parameters_json))


def check(piece: Inferred) -> None:
    """Raises ValueError for a piece that the server would reject (schema/limits.hpp)."""
    size = size_of(piece)
    names = [piece.content_type, *(name for name, _ in piece.headers)]
    names += [text for t in piece.outputs for text in (t.name, t.datatype)]
    for what, count, most in (
        ("bytes", size, BYTES_MAX),
        ("tensors", len(piece.outputs), TENSORS_MAX),
        ("dimensions", max((len(t.shape) for t in piece.outputs), default=0), DIMENSIONS_MAX),
        ("headers", len(piece.headers), HEADERS_MAX),
        ("bytes in a name", max(len(name.encode()) for name in names), NAME_BYTES_MAX),
        ("bytes in a header", max((len(v.encode()) for _, v in piece.headers), default=0), HEADER_BYTES_MAX),
        ("bytes of parameters", len(piece.parameters_json.encode()), PARAMETERS_BYTES_MAX),
    ):
        if count > most:
            raise ValueError(f"an answer's piece has {count} {what}, at most {most} are possible")


# -- Out --


def _optional_text(b: flatbuffers.Builder, text: str) -> Optional[int]:
    return b.CreateString(text) if text else None


def _optional_bytes(b: flatbuffers.Builder, data: bytes) -> Optional[int]:
    return b.CreateByteVector(bytes(data)) if data else None


def _tensor(b: flatbuffers.Builder, t: Tensor) -> int:
    name, datatype = b.CreateString(t.name), b.CreateString(t.datatype)
    wire_tensor.TensorStartShapeVector(b, len(t.shape))
    for extent in reversed(t.shape):
        b.PrependInt64(int(extent))
    shape = b.EndVector()
    data = _optional_bytes(b, t.data)
    wire_tensor.TensorStart(b)
    wire_tensor.TensorAddName(b, name)
    wire_tensor.TensorAddDatatype(b, datatype)
    wire_tensor.TensorAddShape(b, shape)
    if data is not None:
        wire_tensor.TensorAddData(b, data)
    return wire_tensor.TensorEnd(b)


def _header(b: flatbuffers.Builder, name: str, value: str) -> int:
    texts = b.CreateString(name), b.CreateString(value)
    wire_header.HeaderFieldStart(b)
    wire_header.HeaderFieldAddName(b, texts[0])
    wire_header.HeaderFieldAddValue(b, texts[1])
    return wire_header.HeaderFieldEnd(b)


def _tensors(b: flatbuffers.Builder, tensors: Sequence[Tensor]) -> int:
    return codec._offset_vector(b, [_tensor(b, t) for t in tensors])


def _headers(b: flatbuffers.Builder, headers: Headers) -> int:
    return codec._offset_vector(b, [_header(b, name, value) for name, value in headers])


def infer(asked: Infer) -> bytes:
    b = flatbuffers.Builder(1024)
    model, version = b.CreateString(asked.model), _optional_text(b, asked.version)
    inputs = _tensors(b, asked.inputs)
    outputs = codec._offset_vector(b, [b.CreateString(name) for name in asked.outputs])
    body = _optional_bytes(b, asked.body)
    content_type = _optional_text(b, asked.content_type)
    headers = _headers(b, asked.headers)
    parameters = _optional_text(b, asked.parameters_json)
    request_id = _optional_text(b, asked.request_id)
    wire_infer.InferStart(b)
    wire_infer.InferAddRequest(b, asked.request)
    wire_infer.InferAddModel(b, model)
    wire_infer.InferAddInputs(b, inputs)
    wire_infer.InferAddOutputs(b, outputs)
    wire_infer.InferAddHeaders(b, headers)
    wire_infer.InferAddDeadlineMs(b, int(asked.deadline * 1000))
    for add, offset in (
        (wire_infer.InferAddVersion, version),
        (wire_infer.InferAddBody, body),
        (wire_infer.InferAddContentType, content_type),
        (wire_infer.InferAddParameters, parameters),
        (wire_infer.InferAddRequestId, request_id),
    ):
        if offset is not None:
            add(b, offset)
    return codec._finished(b, MessageKind.infer, wire_infer.InferEnd(b))


def _for_people(text: str) -> bytes:
    """Cuts a message to the server's limit: a handler's exception may print a whole tensor."""
    raw = text.encode(errors="replace")
    return raw[:REASON_BYTES_MAX].decode(errors="ignore").encode()


def _error(b: flatbuffers.Builder, wrong: BatonError) -> int:
    texts = [b.CreateString(_for_people(text)) for text in (wrong.message, wrong.param, wrong.name)]
    wire_error.ErrorStart(b)
    wire_error.ErrorAddCode(b, wrong.code)
    wire_error.ErrorAddMessage(b, texts[0])
    wire_error.ErrorAddParam(b, texts[1])
    wire_error.ErrorAddName(b, texts[2])
    wire_error.ErrorAddRetryable(b, wrong.retryable)
    return wire_error.ErrorEnd(b)


def inferred(request: int, piece: Inferred) -> bytes:
    b = flatbuffers.Builder(1024)
    outputs = _tensors(b, piece.outputs)
    body = _optional_bytes(b, piece.body)
    content_type = _optional_text(b, piece.content_type)
    headers = _headers(b, piece.headers)
    parameters = _optional_text(b, piece.parameters_json)
    failure = _error(b, piece.failure) if piece.failure is not None else None
    wire_inferred.InferredStart(b)
    wire_inferred.InferredAddRequest(b, request)
    wire_inferred.InferredAddIndex(b, piece.index)
    wire_inferred.InferredAddIsLast(b, piece.is_last)
    wire_inferred.InferredAddOutputs(b, outputs)
    wire_inferred.InferredAddHeaders(b, headers)
    wire_inferred.InferredAddHttpStatus(b, piece.status)
    for add, offset in (
        (wire_inferred.InferredAddBody, body),
        (wire_inferred.InferredAddContentType, content_type),
        (wire_inferred.InferredAddParameters, parameters),
        (wire_inferred.InferredAddFailure, failure),
    ):
        if offset is not None:
            add(b, offset)
    return codec._finished(b, MessageKind.inferred, wire_inferred.InferredEnd(b))


def cancel_infer(request: int) -> bytes:
    b = flatbuffers.Builder(64)
    wire_cancel_infer.CancelInferStart(b)
    wire_cancel_infer.CancelInferAddRequest(b, request)
    return codec._finished(b, MessageKind.cancel_infer, wire_cancel_infer.CancelInferEnd(b))


def _metric(b: flatbuffers.Builder, m: Any) -> int:
    name, about, labels = b.CreateString(m.name), _optional_text(b, m.help), _headers(b, m.labels)
    wire_metric.HandlerMetricStart(b)
    wire_metric.HandlerMetricAddName(b, name)
    if about is not None:
        wire_metric.HandlerMetricAddHelp(b, about)
    wire_metric.HandlerMetricAddKind(b, getattr(MetricKind, m.kind))
    wire_metric.HandlerMetricAddLabels(b, labels)
    wire_metric.HandlerMetricAddSets(b, m.sets)
    wire_metric.HandlerMetricAddValue(b, m.value)
    return wire_metric.HandlerMetricEnd(b)


def handler_metrics(updates: Sequence[Any]) -> bytes:
    """Encodes up to METRICS_MAX updates of `baton_worker.metrics`."""
    b = flatbuffers.Builder(1024)
    every = codec._offset_vector(b, [_metric(b, m) for m in updates])
    wire_metrics.HandlerMetricsStart(b)
    wire_metrics.HandlerMetricsAddAll(b, every)
    return codec._finished(b, MessageKind.handler_metrics, wire_metrics.HandlerMetricsEnd(b))


# -- In --

_TENSOR_DATA, _INFER_BODY, _INFERRED_BODY = 10, 14, 12  # slots in their tables' vtables


def _bytes(table, slot: int) -> bytes:
    """A vector of bytes at once; element by element would take seconds for an image."""
    at = table._tab.Offset(slot)
    if at == 0:
        return b""
    begin, size = table._tab.Vector(at), table._tab.VectorLen(at)
    data = bytes(table._tab.Bytes[begin : begin + size])
    if len(data) != size:
        raise ValueError("a vector ends outside of the frame")
    return data


def _read_tensor(t) -> Tensor:
    return Tensor(
        codec._text(t.Name()),
        codec._text(t.Datatype()),
        [t.Shape(i) for i in range(t.ShapeLength())],
        _bytes(t, _TENSOR_DATA),
    )


def _read_headers(t) -> List[Tuple[str, str]]:
    headers = [t.Headers(i) for i in range(t.HeadersLength())]
    return [(codec._text(h.Name()), codec._text(h.Value())) for h in headers]


def _read_infer(t) -> Infer:
    return Infer(
        request=t.Request(),
        model=codec._text(t.Model()),
        version=codec._text(t.Version()),
        inputs=[_read_tensor(t.Inputs(i)) for i in range(t.InputsLength())],
        outputs=[codec._text(t.Outputs(i)) for i in range(t.OutputsLength())],
        body=_bytes(t, _INFER_BODY),
        content_type=codec._text(t.ContentType()),
        headers=_read_headers(t),
        parameters_json=codec._text(t.Parameters()),
        request_id=codec._text(t.RequestId()),
        deadline=t.DeadlineMs() / 1000,
    )


def _read_inferred(t: WireInferred) -> Inferred:
    return Inferred(
        outputs=[_read_tensor(t.Outputs(i)) for i in range(t.OutputsLength())],
        body=_bytes(t, _INFERRED_BODY),
        content_type=codec._text(t.ContentType()),
        headers=_read_headers(t),
        parameters_json=codec._text(t.Parameters()),
        status=t.HttpStatus(),
        failure=codec._optional_error(t.Failure()),
        index=t.Index(),
        is_last=bool(t.IsLast()),
    )


codec.READERS.update(
    {
        MessageKind.inferred: (WireInferred, _read_inferred),
        MessageKind.infer_batch: (
            WireInferBatch,
            lambda t: [_read_infer(t.Items(i)) for i in range(t.ItemsLength())],
        ),
        MessageKind.cancel_infer: (WireCancelInfer, lambda t: t.Request()),
        MessageKind.credit: (WireCredit, lambda t: t.BytesTotal()),
        MessageKind.drain: (WireDrain, lambda t: True),
        MessageKind.heartbeat: (WireHeartbeat, lambda t: t.Steps()),
    }
)
