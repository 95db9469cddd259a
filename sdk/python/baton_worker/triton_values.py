"""Values of Triton's Python backend: tensors, responses, errors."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy

from baton_client import tensors

from . import dlpack


class TritonModelException(Exception):
    pass


class TritonError:
    """The failure of an answer. The codes are HTTP's here."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED = 500, 500, 404, 400, 503, 501
    ALREADY_EXISTS, CANCELLED = 409, 499

    def __init__(self, message: str, code: int = INTERNAL):
        self._message, self._code = str(message), code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class Tensor:
    """A name, and a writable numpy array, or a framework's array on a GPU. A type that only DLPack supports (BF16) is kept in an array of
    integers."""

    def __init__(self, name: str, array: Any):
        array = numpy.asarray(array)
        if array.dtype.kind not in "OSU" and not array.flags.c_contiguous:
            array = numpy.ascontiguousarray(array)
        self._set(name, array, _datatype_of(array))

    def _set(self, name: str, array: Any, datatype: str, on_gpu: Any = None) -> None:
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        self._name, self._array, self._datatype, self._on_gpu = name, array, datatype, on_gpu

    @classmethod
    def _of(cls, name: str, array: Any, datatype: str, on_gpu: Any = None) -> "Tensor":
        made = cls.__new__(cls)
        made._set(name, array, datatype, on_gpu)
        return made

    @classmethod
    def of_wire(cls, tensor: tensors.Tensor) -> "Tensor":
        """Raises ValueError if the bytes do not match the shape, or the datatype is not supported."""
        if tensor.datatype != "BF16":
            array = tensor.numpy()
            return cls._of(tensor.name, array if array.flags.writeable else array.copy(), tensor.datatype)
        array = numpy.frombuffer(bytearray(tensor.data), "<u2").reshape(tuple(tensor.shape))
        return cls._of(tensor.name, array, tensor.datatype)

    def to_wire(self) -> tensors.Tensor:
        array, datatype = self._on_host()
        if datatype == "BF16":
            return tensors.Tensor(self._name, datatype, array.shape, array.tobytes())
        if datatype == "BYTES":  # as in Triton, other elements are converted with str()
            elements = [one if isinstance(one, (bytes, bytearray, memoryview)) else str(one) for one in array.reshape(-1).tolist()]
            return tensors.Tensor(self._name, datatype, array.shape, tensors.pack_elements(elements))
        return tensors.Tensor.of(self._name, array)

    @classmethod
    def from_dlpack(cls, name: str, tensor: Any) -> "Tensor":
        """From a capsule, which can be read once, or from an object with `__dlpack__`. The memory is shared."""
        if not dlpack.is_capsule(tensor) and not (hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__")):
            raise TritonModelException(
                f"a {type(tensor).__name__} is not supported: a tensor is a DLPack capsule, or has `__dlpack__` and `__dlpack_device__`"
            )
        try:
            device, _ = dlpack.device_of(tensor) if dlpack.is_capsule(tensor) else tensor.__dlpack_device__()
            if device == dlpack.CUDA:
                return cls._of(name, None, "", dlpack.on_device(tensor))
            if device not in (dlpack.CPU, dlpack.CUDA_HOST):
                raise ValueError(f"DLDevice type {int(device)} is not supported: tensors are on a CPU, or a CUDA GPU")
            array, datatype = dlpack.array_of(tensor if dlpack.is_capsule(tensor) else tensor.__dlpack__())
            return cls._of(name, array, datatype or _datatype_of(array))
        except (ValueError, BufferError) as wrong:
            raise TritonModelException(str(wrong)) from wrong

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        if self._on_gpu is not None:
            raise TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")
        if self._datatype == "BF16":
            raise TritonModelException("Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead.")
        return self._array

    def is_cpu(self) -> bool:
        return self._on_gpu is None

    def shape(self) -> List[int]:
        return [int(size) for size in (self._array if self._on_gpu is None else self._on_gpu).shape]

    def triton_dtype(self) -> str:
        return self._datatype if self._on_gpu is None else self._on_host()[1]

    def to_dlpack(self) -> Any:
        return self.__dlpack__()

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        """An unversioned DLPack capsule, as the standard allows."""
        if self._on_gpu is not None:
            return self._on_gpu.__dlpack__(stream=stream)
        if self._datatype == "BYTES":
            raise TritonModelException("DLPack does not have support for string tensors.")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor '{self._name}' is on the CPU")
        if not self._array.flags.writeable:  # such a capsule cannot be marked read-only
            self._array = self._array.copy()
        return dlpack.capsule_of(self._array.copy() if copy else self._array, self._datatype)

    def __dlpack_device__(self) -> Tuple[int, int]:
        if self._on_gpu is None:
            return dlpack.CPU, 0
        device, number = self._on_gpu.__dlpack_device__()
        return int(device), int(number)

    def preferred_on(self, device: int) -> "Tensor":
        """On a GPU, if there is one that supports the datatype; otherwise the tensor itself."""
        if self._on_gpu is not None or self._datatype == "BYTES":
            return self
        moved = dlpack.to_gpu(self._array, self._datatype, device)
        return self if moved is None else self._of(self._name, None, "", moved)

    def _on_host(self) -> Tuple[Any, str]:
        if self._on_gpu is None:
            return self._array, self._datatype
        try:
            array, datatype = dlpack.to_host(self._on_gpu)
        except ValueError as wrong:
            raise TritonModelException(f"the tensor '{self._name}': {wrong}") from wrong
        return array, datatype or _datatype_of(array)


def _datatype_of(array: Any) -> str:
    if array.dtype.kind in "OSU":
        return "BYTES"
    for datatype, name in tensors.NUMPY_NAMES.items():
        if array.dtype == numpy.dtype(name):
            return datatype
    raise TritonModelException(f"NumPy dtype is not supported: there is no datatype for {array.dtype}")


class InferenceResponse:
    def __init__(self, output_tensors: Sequence[Tensor] = (), error: Optional[TritonError] = None, parameters: Any = None):
        if parameters is not None and not isinstance(parameters, dict):
            raise TritonModelException(f"parameters are a dict, not a {type(parameters).__name__}")
        self._outputs, self._error, self._parameters = list(output_tensors), error, parameters

    def output_tensors(self) -> List[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> Optional[TritonError]:
        return self._error

    def parameters(self) -> str:
        return json.dumps(self._parameters or {})

    def response_parameters(self) -> Dict[str, Any]:
        return dict(self._parameters or {})
