"""Writes a GGUF file of random weights at the shape of a published model, for benchmarks of real size without a download.

    `python3 tests/bench/random_model.py --shape 0.5b|1.5b|8b|tiny --type Q4_K_M|Q5_K_M|Q6_K|Q8_0|Q4_0|BF16 FILE`

The weights are within [-1/16, 1/16] and centred, so that no sum overflows. Speed does not depend on their values. The vocabulary has one token
for each byte, plus words that no text contains, so that the model can be served. A mixed type (Q4_K_M) has the mixture that llama-quantize
makes: half of attn_v and ffn_down, and the head, are Q6_K."""
import argparse
import pathlib
import random
import struct
import sys

import gpu

ALIGNMENT = 32
PATTERN_BLOCKS = 1 << 14  # random blocks that are repeated
CHUNK_BYTES = 32 << 20
# hidden, ffn, layers, heads, KV heads, vocabulary, whether the head is the embedding: Qwen2.5 0.5B and 1.5B, Llama 3.1 8B, and a small one for tests.
SHAPES = {"0.5b": (896, 4864, 24, 14, 2, 151936, True), "1.5b": (1536, 8960, 28, 12, 2, 151936, True),
          "8b": (4096, 14336, 32, 32, 8, 128256, False), "tiny": (256, 512, 2, 4, 2, 512, False)}


def half(x):
    return struct.pack("<e", x)


# The type's number in GGUF, values of a block, and a function that makes a block of random bits. Source: gguf.md and ggml-common.h of llama.cpp.
TYPES = {
    "F32": (0, 1, lambda r: struct.pack("<f", 1.0)),
    "BF16": (30, 1, lambda r: struct.pack("<H", 0x3C00 | r.getrandbits(8) | r.getrandbits(1) << 15)),
    "Q4_0": (2, 32, lambda r: half(1 / 128) + r.randbytes(16)),
    "Q5_0": (6, 32, lambda r: half(1 / 256) + r.randbytes(4) + r.randbytes(16)),
    "Q5_1": (7, 32, lambda r: half(1 / 256) + half(-15.5 / 256) + r.randbytes(4) + r.randbytes(16)),
    "Q8_0": (8, 32, lambda r: half(1 / 2048) + r.randbytes(32)),
    "Q4_K": (12, 256, lambda r: half(2 ** -14) + half(7.5 * 2 ** -14) + r.randbytes(12) + r.randbytes(128)),
    "Q5_K": (13, 256, lambda r: half(2 ** -15) + half(15.5 * 2 ** -15) + r.randbytes(12) + r.randbytes(32) + r.randbytes(128)),
    "Q6_K": (14, 256, lambda r: r.randbytes(128) + r.randbytes(64) + r.randbytes(16) + half(2 ** -16)),
}
FILE_TYPES = {"BF16": 32, "Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18}  # general.file_type
SHORT_ROWS = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}  # as llama-quantize stores rows that are no multiple of 256
BASE = {"Q4_K_M": "Q4_K", "Q5_K_M": "Q5_K"}


def type_of(name, kind, layer, layers, columns):
    """The type of a tensor in a file of this mixture."""
    base = BASE.get(kind, kind)
    if name.endswith("norm.weight"):
        return "F32"
    if kind in BASE:
        if name in ("output.weight", "token_embd.weight"):
            base = "Q6_K"
        elif name.endswith(("attn_v.weight", "ffn_down.weight")) and uses_more_bits(layer, layers):
            base = "Q6_K"
    return base if columns % TYPES[base][1] == 0 else SHORT_ROWS[base]


def uses_more_bits(layer, layers):
    """The first and the last eighth of the layers, and every third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def tensors_of(shape, kind):
    """-> [(name, [columns, rows] or [columns], type)]"""
    hidden, ffn, layers, heads, kv_heads, vocabulary, is_tied = SHAPES[shape]
    size = hidden // heads
    found = [("token_embd.weight", [hidden, vocabulary], 0)]
    for i in range(layers):
        found += [(f"blk.{i}.{name}.weight", dims, i) for name, dims in (
            ("attn_norm", [hidden]), ("attn_q", [hidden, hidden]), ("attn_k", [hidden, kv_heads * size]), ("attn_v", [hidden, kv_heads * size]),
            ("attn_output", [hidden, hidden]), ("ffn_norm", [hidden]), ("ffn_gate", [hidden, ffn]), ("ffn_up", [hidden, ffn]), ("ffn_down", [ffn, hidden]))]
    found += [("output_norm.weight", [hidden], 0)] + ([] if is_tied else [("output.weight", [hidden, vocabulary], 0)])
    return [(name, dims, type_of(name, kind, layer, layers, dims[0])) for name, dims, layer in found]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A key and its value: whole numbers, floats, texts, flags, and lists of texts or whole numbers."""
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if value and isinstance(value[0], int):
        return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))


def metadata_of(shape, kind):
    hidden, ffn, layers, heads, kv_heads, vocabulary, _ = SHAPES[shape]
    words = ["<s>", "</s>"] + gpu.byte_letters()
    words += [f"\u0120w{i}" for i in range(len(words), vocabulary)]
    return {
        "general.architecture": "llama", "general.name": f"random {shape}", "general.file_type": FILE_TYPES[kind], "general.alignment": ALIGNMENT,
        "llama.block_count": layers, "llama.context_length": 32768, "llama.embedding_length": hidden, "llama.feed_forward_length": ffn,
        "llama.attention.head_count": heads, "llama.attention.head_count_kv": kv_heads, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 500000.0, "llama.rope.dimension_count": hidden // heads, "llama.vocab_size": vocabulary,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": [3, 3] + [1] * (vocabulary - 2),
        "tokenizer.ggml.merges": [], "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"}


def bytes_of(dims, kind):
    count = 1
    for d in dims:
        count *= d
    number, values, make = TYPES[kind]
    return count // values * len(make(random.Random(0)))


def write_blocks(out, size, pattern):
    while size:
        piece = pattern[:size] if size < len(pattern) else pattern
        out.write(piece)
        size -= len(piece)


def pattern_of(kind):
    """Whole random blocks, as many as one write has."""
    source = random.Random(kind)
    blocks = b"".join(TYPES[kind][2](source) for _ in range(PATTERN_BLOCKS))
    return blocks * max(1, CHUNK_BYTES // len(blocks))


def write_model(path, shape, kind):
    tensors, entries = tensors_of(shape, kind), metadata_of(shape, kind)
    header, at = b"", 0
    for name, dims, each in tensors:
        header += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", TYPES[each][0], at)
        at += -(-bytes_of(dims, each) // ALIGNMENT) * ALIGNMENT
    patterns = {each: pattern_of(each) for each in {t for _, _, t in tensors}}
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entry(k, v) for k, v in entries.items()) + header)
        out.write(b"\0" * (-out.tell() % ALIGNMENT))
        for _, dims, each in tensors:
            size = bytes_of(dims, each)
            write_blocks(out, size, patterns[each])
            out.write(b"\0" * (-size % ALIGNMENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="1.5b")
    parser.add_argument("--type", choices=FILE_TYPES, default="Q4_K_M")
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    write_model(options.file, options.shape, options.type)
    return 0


if __name__ == "__main__":
    sys.exit(main())
