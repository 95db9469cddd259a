"""What models of Triton's Python backend hand about: tensors, responses, errors."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Sequence

import numpy

from baton_client import tensors


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
