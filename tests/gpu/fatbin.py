"""Zeroes the parts of a CUDA library for absent processors: the file keeps its size and layout, and packs to a fraction.

A fat binary is a header (magic, version, its size, the size of the entries) followed by entries. Each entry has its own header: its kind
(1 is PTX, 2 machine code), sizes, and the architecture. The loader picks the entry of its architecture and ignores the others."""
import re
import struct
import subprocess

MAGIC = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")  # magic, version, header's bytes, bytes behind it
ENTRY = struct.Struct("<HHIQ")  # kind, version, header's bytes, payload's bytes
ARCHITECTURE_AT = 28
MACHINE_CODE = 2
USED, OF_LINKING = ".nv_fatbin", "__nv_relfatbin"  # the second is for those who link device code against the library


def sections(file):
    """name -> (offset, size)"""
    listing = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True, check=True).stdout
    return {name: (int(at, 16), int(size, 16)) for name, at, size in re.findall(r"\]\s+(\S+)\s+\w+\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)", listing)}


def entries(data, begin, size):
    """(kind, architecture, offset of the payload, its bytes) of every entry in `size` bytes from `begin`."""
    at, end = begin, begin + size
    while at + HEADER.size <= end:
        magic, _, header, count = HEADER.unpack_from(data, at)
        if magic != MAGIC:
            at += 8  # padding between two of them
            continue
        entry, stop = at + header, at + header + count
        while entry < stop:
            kind, _, own, payload = ENTRY.unpack_from(data, entry)
            yield kind, struct.unpack_from("<I", data, entry + ARCHITECTURE_AT)[0], entry + own, payload
            entry += own + payload
        at = stop


def keep_only(data, places, architectures):
    """Changes `data`. -> bytes of machine code that are left; none of them if the architecture is missing."""
    left = 0
    if OF_LINKING in places:
        at, size = places[OF_LINKING]
        data[at : at + size] = bytes(size)
    for kind, architecture, at, size in entries(data, *places[USED]):
        if kind == MACHINE_CODE and architecture in architectures:
            left += size
        else:
            data[at : at + size] = bytes(size)
    return left


def cut(source, target, architectures):
    data = bytearray(open(source, "rb").read())
    if not keep_only(data, sections(source), architectures):
        raise ValueError(f"{source} has no machine code for {sorted(architectures)}")
    with open(target, "wb") as out:
        out.write(data)
