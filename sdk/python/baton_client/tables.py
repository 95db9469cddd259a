"""Writes and reads tables of the schema by their lists of fields (wire/tables.py, generated).

A new field of a table needs no line here. Values have the names of schema/api.fbs.
"""

from __future__ import annotations

from importlib import import_module
from operator import methodcaller
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import flatbuffers

from .wire import tables as wire_tables


class Field(NamedTuple):
    name: str
    member: str  # its name in C++ and in the APIs, where the wire has another one
    type: str
    is_vector: bool
    default: Any


FIELDS: Dict[str, Dict[str, Field]] = {
    table: {row[0]: Field(*row) for row in rows} for table, rows in wire_tables.FIELDS.items()
}

# The builder's name of a scalar, and its bytes.
_SCALARS = {
    "bool": ("Bool", 1),
    "ubyte": ("Uint8", 1),
    "ushort": ("Uint16", 2),
    "int": ("Int32", 4),
    "uint": ("Uint32", 4),
    "long": ("Int64", 8),
    "ulong": ("Uint64", 8),
    "float": ("Float32", 4),
    "double": ("Float64", 8),
}


# -- Out --


def write(b: flatbuffers.Builder, table: str, values: Dict[str, Any]) -> int:
    """The offset of a table; a field that is not in `values` has its default.

    A text is a str, a table a dict, a struct a tuple, a union (table, dict). Texts, vectors and
    tables are written in the order of `values`.
    """
    fields = FIELDS[table]
    offsets = {name: _child(b, fields[name], value) for name, value in values.items() if _has_offset(fields[name])}
    b.StartObject(len(fields))
    for slot, field in enumerate(fields.values()):
        if field.name in offsets:
            b.PrependUOffsetTRelativeSlot(slot, offsets[field.name], 0)
        elif field.name in values:
            prepend = getattr(b, f"Prepend{_SCALARS[field.type][0]}Slot")
            prepend(slot, values[field.name], field.default)
    return b.EndObject()


def _has_offset(field: Field) -> bool:
    return field.is_vector or field.type not in _SCALARS


def _child(b: flatbuffers.Builder, field: Field, value: Any) -> int:
    if not field.is_vector:
        if field.type == "string":
            return b.CreateString(value)
        return write(b, *value) if field.type in wire_tables.UNIONS else write(b, field.type, value)
    if field.type == "string":
        return offset_vector(b, [b.CreateString(text) for text in value])
    if field.type in wire_tables.STRUCTS:
        create = getattr(import_module(f".wire.{field.type}", __package__), f"Create{field.type}")
        b.StartVector(wire_tables.STRUCTS[field.type][0], len(value), wire_tables.STRUCTS[field.type][1])
        for one in reversed(value):
            create(b, *one)
        return b.EndVector()
    if field.type == "ubyte":
        return b.CreateByteVector(bytes(value))
    if field.type in _SCALARS:
        name, size = _SCALARS[field.type]
        b.StartVector(size, len(value), size)
        for one in reversed(value):
            getattr(b, f"Prepend{name}")(one)
        return b.EndVector()
    return offset_vector(b, [write(b, field.type, one) for one in value])


def offset_vector(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def with_fields_of(params: Any, table: str, values: Dict[str, Any]) -> Dict[str, Any]:
    """`values`, and each other field of the table that `params` has under its name in C++.

    None and an empty text leave the field out.
    """
    taken = dict(values)
    for field in FIELDS[table].values():
        value = getattr(params, field.member, None)
        if field.name not in values and value is not None and value != "":
            taken[field.name] = value
    return taken


# -- In --


def text(value: Optional[bytes]) -> str:
    return value.decode("utf-8", "replace") if value is not None else ""


def _reader(field: Field) -> Callable[[Any], Any]:
    name = field.name.title().replace("_", "")  # flatc's accessor
    if field.is_vector:
        return lambda t: [getattr(t, name)(i) for i in range(getattr(t, f"{name}Length")())]
    if field.type == "string":
        return lambda t: text(getattr(t, name)())
    if field.type == "bool":
        return lambda t: bool(getattr(t, name)())
    return methodcaller(name)


def readers(table: str, names: Iterable[str]) -> List[Tuple[str, Callable[[Any], Any]]]:
    """For `read`: those of the `names` that are texts, scalars and vectors of scalars of the table."""
    wanted = set(names)
    fields = [field for field in FIELDS[table].values() if field.name in wanted]
    return [(f.name, _reader(f)) for f in fields if f.type in _SCALARS or (f.type == "string" and not f.is_vector)]


def read(t: Any, fields: Sequence[Tuple[str, Callable[[Any], Any]]]) -> Dict[str, Any]:
    return {name: get(t) for name, get in fields}
