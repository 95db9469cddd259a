"""Writes dequantize.golden beside this script: tensor layouts and decoded blocks by the Python package gguf, the
reference of the format. Run it by hand after `pip install gguf numpy` in a venv; the result is committed.

Lines: `layout NUMBER NAME BLOCK_ELEMENTS BLOCK_BYTES`, `blocks NAME HEX_OF_BLOCKS HEX_OF_LITTLE_ENDIAN_FLOAT32` and `grid NAME HASH_OF_POINTS`.
"""
import pathlib

import gguf.quants
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

BLOCKS = 2
# type -> byte offsets of its float16 fields: random bytes there would be NaN too often for a useful test
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
# Later types have random numbers of their own, so that the lines of the others stay as they are.
LATER_SCALES = {T.Q2_K: [80, 82], T.Q3_K: [108], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [], T.TQ1_0: [52], T.TQ2_0: [64],
                T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0], T.IQ1_M: []}
NOT_IN_FILES = {"Q8_1"}  # activations only, and the package's size differs from the format's


def blocks_of(rng, kind, scales, count=BLOCKS):
    size = GGML_QUANT_SIZES[kind][1]
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in scales:
        raw[:, at : at + 2] = rng.normal(0, 0.05, (count, 1)).astype(np.float16).view(np.uint8)
    return raw


def line_of(kind, raw):
    return f"blocks {kind.name} {raw.tobytes().hex()} {dequantize(raw, kind).astype('<f4').tobytes().hex()}"


def later_blocks(kind):
    rng = np.random.default_rng(20260102 + kind.value)
    if kind is T.IQ1_M:  # its scale is in the top nibbles of the last eight bytes
        raw = blocks_of(rng, kind, [])
        raw[:, 49::2] = raw[:, 49::2] & 15 | np.array([[0xA0, 0x30, 0x80, 0x20], [0x40, 0x10, 0xF0, 0xA0]], dtype=np.uint8)
        return raw
    if kind is not T.MXFP4:
        return blocks_of(rng, kind, LATER_SCALES[kind])
    raw = blocks_of(rng, kind, [], 8)
    raw[:, 0] = [0, 1, 2, 100, 126, 127, 128, 250]  # exponents: denormal, small, about 1, large
    raw[0, 1:] = np.arange(16, dtype=np.uint8) * 17  # every code in both halves
    return raw


def hash_of_grid(kind):
    """FNV-1a of 64 bits over the points, a byte a number: a block has a few of them only."""
    quant = getattr(gguf.quants, kind)
    quant.init_grid()
    value = 0xCBF29CE484222325
    for byte in np.asarray(quant.grid).astype(np.int8).tobytes():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def main():
    rng = np.random.default_rng(20260101)
    lines = [
        f"layout {kind.value} {kind.name} {block} {size}"
        for kind, (block, size) in sorted(GGML_QUANT_SIZES.items())
        if kind.name not in NOT_IN_FILES
    ]
    for kind in SCALES:
        lines.append(line_of(kind, blocks_of(rng, kind, SCALES[kind])))
    halves = np.array([0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x8000, 0x8001, 0xFC00, 0xC248], dtype="<u2")
    lines.append(f"blocks F16 {halves.tobytes().hex()} {halves.view('<f2').astype('<f4').tobytes().hex()}")
    brains = np.array([0, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0x8000, 0xFF80, 0xC248], dtype="<u2")
    lines.append(f"blocks BF16 {brains.tobytes().hex()} {dequantize(brains.view(np.uint8), T.BF16).astype('<f4').tobytes().hex()}")
    lines += [line_of(kind, later_blocks(kind)) for kind in LATER_SCALES]
    lines += [f"grid {kind} {hash_of_grid(kind):016x}" for kind in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S")]
    path = pathlib.Path(__file__).with_name("dequantize.golden")
    path.write_text("\n".join(lines) + "\n")
    print(path, path.stat().st_size, "bytes")


main()
