"""Named tensors for requests and answers of worker models: KServe's v2 datatypes, numpy on demand."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, List, Sequence

# KServe's names to numpy's.
NUMPY_NAMES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


@dataclass
class Tensor:
    """Elements row by row, little-endian; each BYTES element follows its length in four bytes."""

    name: str
    datatype: str
    shape: Sequence[int]
    data: bytes

    @classmethod
    def of(cls, name: str, array: Any) -> "Tensor":
        """From a numpy array, or a value that numpy converts to one; strings and bytes become BYTES.

        Raises ValueError for elements without a datatype.
        """
        import numpy

        array = numpy.asarray(array)
        if array.dtype.kind in "OSU":
            return cls(name, "BYTES", array.shape, pack_elements(array.reshape(-1).tolist()))
        for datatype, numpy_name in NUMPY_NAMES.items():
            if array.dtype == numpy.dtype(numpy_name):
                data = numpy.ascontiguousarray(array, numpy.dtype(numpy_name)).tobytes()
                return cls(name, datatype, array.shape, data)
        raise ValueError(f"no datatype for numpy's {array.dtype}")

    def numpy(self) -> Any:
        """Raises ValueError if the bytes do not match the shape."""
        import numpy

        if self.datatype == "BYTES":
            flat = numpy.empty(len(unpack_elements(self.data)), dtype=object)
            flat[:] = unpack_elements(self.data)
            return flat.reshape(tuple(self.shape))
        if self.datatype not in NUMPY_NAMES:
            raise ValueError(f"no numpy type for {self.datatype}")
        return numpy.frombuffer(self.data, NUMPY_NAMES[self.datatype]).reshape(tuple(self.shape))


def pack_elements(elements: Sequence[Any]) -> bytes:
    """Raises ValueError for elements that are neither text nor bytes."""
    parts: List[bytes] = []
    for element in elements:
        if not isinstance(element, (str, bytes, bytearray, memoryview)):
            raise ValueError(f"an element of BYTES is a text or bytes, not a {type(element).__name__}")
        raw = element.encode() if isinstance(element, str) else bytes(element)
        parts += [struct.pack("<I", len(raw)), raw]
    return b"".join(parts)


def unpack_elements(data: bytes) -> List[bytes]:
    """Raises ValueError."""
    elements: List[bytes] = []
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise ValueError("a length of a BYTES element is cut off")
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if at + size > len(data):
            raise ValueError("a BYTES element is cut off")
        elements.append(data[at : at + size])
        at += size
    return elements
