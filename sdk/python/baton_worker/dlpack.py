"""DLPack between a model's frameworks and numpy: https://dmlc.github.io/dlpack/latest/python_spec.html

numpy reads and writes the capsules of the CPU. It has no bfloat16, and before 1.25 no bool: those two are exchanged as integers of the
same width, and the capsule holds their type.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Tuple

import numpy

CPU, CUDA, CUDA_HOST = 1, 2, 3  # DLDeviceType
_UINT, _BFLOAT, _BOOL = 1, 4, 6  # DLDataTypeCode
_PRETENDED = {"BF16": (_BFLOAT, "<u2"), "BOOL": (_BOOL, "u1")}
_UNREAD, _READ = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    """DLTensor, the first part of a DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def _tensor_of(capsule: Any) -> _Tensor:
    if not _is_valid(capsule, _UNREAD):
        was_read = _is_valid(capsule, _READ)
        raise ValueError("the DLPack capsule was read before" if was_read else "the capsule is not one of DLPack")
    return _Tensor.from_address(_pointer(capsule, _UNREAD))


class _Capsule:
    """The object from which numpy and frameworks read a capsule."""

    def __init__(self, capsule: Any, device: Tuple[int, int]):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._device


class _Memory:
    """A writable view of an array that numpy gives read-only: before 2.1 it does so with all DLPack arrays."""

    def __init__(self, array: Any):
        self._array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def capsule_of(array: Any, datatype: str) -> Any:
    """A capsule of a writable numpy array, which the capsule keeps alive."""
    if datatype not in _PRETENDED:
        return array.__dlpack__()
    code, numpy_name = _PRETENDED[datatype]
    capsule = array.view(numpy_name).__dlpack__()
    _tensor_of(capsule).code = code
    return capsule


def device_of(capsule: Any) -> Tuple[int, int]:
    tensor = _tensor_of(capsule)
    return tensor.device_type, tensor.device_id


def array_of(capsule: Any) -> Tuple[Any, str]:
    """Reads a capsule of CPU memory: returns a numpy array, and "BF16" if its integers hold that type, else "".

    Raises ValueError for memory that is not row by row, or a type without a datatype."""
    tensor = _tensor_of(capsule)
    _check_rows(tensor)
    pretended = {(code, 8 * numpy.dtype(name).itemsize): datatype for datatype, (code, name) in _PRETENDED.items()}.get((tensor.code, tensor.bits), "")
    if pretended:
        tensor.code = _UINT
    try:
        array = numpy.from_dlpack(_Capsule(capsule, (CPU, 0)))
    except (BufferError, RuntimeError, TypeError) as wrong:
        raise ValueError(f"the DLPack tensor's type has no datatype here: {wrong}") from wrong
    if not array.flags.writeable:
        array = numpy.asarray(_Memory(array))
    return (array.view("?"), "") if pretended == "BOOL" else (array, pretended)


def _check_rows(tensor: _Tensor) -> None:
    if not tensor.strides or any(tensor.shape[at] == 0 for at in range(tensor.ndim)):
        return
    stride = 1
    for at in reversed(range(tensor.ndim)):
        if tensor.shape[at] == 1:
            continue
        if tensor.strides[at] != stride:
            # Triton's message, which its users' tests compare.
            raise ValueError("DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported.")
        stride *= tensor.shape[at]


# -- On a GPU: through the framework that the model has imported --


def on_device(source: Any) -> Any:
    """A framework's array from a CUDA capsule or an object with `__dlpack__`, after its pending work. Raises ValueError."""
    if is_capsule(source):
        source = _Capsule(source, device_of(source))
    device = source.__dlpack_device__()[1]
    if "torch" in sys.modules:
        import torch

        array = torch.from_dlpack(source)
        torch.cuda.synchronize(device)
        return array
    if "cupy" in sys.modules:
        import cupy

        array = cupy.from_dlpack(source)
        cupy.cuda.Device(device).synchronize()
        return array
    raise ValueError("a tensor on a GPU is read by torch or cupy, of which the model has imported neither")


def to_host(array: Any) -> Tuple[Any, str]:
    """Converts a result of `on_device`, like `array_of`."""
    if type(array).__module__.startswith("cupy"):
        return array.get(), ""
    return array_of(array.contiguous().cpu().__dlpack__())


def to_gpu(array: Any, datatype: str, device: int) -> Any:
    """A copy on a GPU, or None if the model has not imported torch, or torch finds no such GPU."""
    if "torch" not in sys.modules:
        return None
    import torch

    if not torch.cuda.is_available() or device >= torch.cuda.device_count():
        return None
    return torch.from_dlpack(_Capsule(capsule_of(array, datatype), (CPU, 0))).to(f"cuda:{device}")
