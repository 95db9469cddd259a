"""Measures the GPU engine against the limits of its device: docs/develop/gpu.md explains which rows stand for which bar.

Writes a model of random weights at the requested shape (a directory as transformers saves it). Measures copy bandwidth and matrix
products with torch on the same device, then the engine with gpu_bench. Prints one JSON object a line: row, value, unit, and bar and ok if
there is one. Exit status 1 if a bar is missed, 2 if something could not be measured.

    `python3 tests/bench/gpu.py [--device cuda:0] [--shape 8b|1b|tiny] [--dtype bfloat16] [--python PYTHON] [--build-dir build/gpu]`.
    `--quantization fp8`: the same with packed weights; also int4.
    `--only attention`: decode of 64 sequences at 4096 positions, minus the same at 64.
    `--only host [--batch 256]`: host time to begin a step of 32 layers while the device runs the previous one.
    `--shape 8b --write DIR`: only writes the model.
"""
import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# hidden, ffn, layers, heads, KV heads, vocabulary. Llama-3.1-8B's, Llama-3.2-1B's, and one that a test writes in a moment.
SHAPES = {"8b": (4096, 14336, 32, 32, 8, 128256), "1b": (2048, 8192, 16, 32, 8, 128256), "tiny": (64, 128, 2, 4, 2, 320),
          "narrow": (64, 128, 32, 4, 2, 320)}  # as many launches as 8b, and almost no computing
CHUNK_BYTES = 64 << 20
BARS = {"decode batch 1, of copy bandwidth": 0.80, "prefill 4096, of matmul peak": 0.65}
PACKED_BAR = 0.65  # of decode with fp8
ATTENTION_BAR = 0.75  # of copy bandwidth
HOST_BAR_US = 150
PROBE = '''
import json, sys, time, torch
device, dtype, size = sys.argv[1], getattr(torch, sys.argv[2]), int(sys.argv[3])
wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
def best(work, rounds=8):
    found = None
    for _ in range(rounds):
        wait(); begin = time.perf_counter(); work(); wait()
        took = time.perf_counter() - begin
        found = took if found is None else min(found, took)
    return found
a = torch.empty(size * size, dtype=torch.uint8, device=device); b = torch.empty_like(a)
n = 8192 if device.startswith("cuda") else 256
m = torch.randn(n, n, device=device).to(dtype); w = torch.randn(n, n, device=device).to(dtype)
print(json.dumps({"copy": 2 * a.numel() / best(lambda: b.copy_(a)), "products": 2 * n ** 3 / best(lambda: torch.mm(m, w))}))
'''


def say(row, value, unit, **more):
    print(json.dumps({"row": row, "value": value, "unit": unit, **more}), flush=True)


def tensors_of(shape):
    """-> [(name, [rows, columns] or [columns])] of a Llama with separate head."""
    hidden, ffn, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    size = hidden // heads
    yield "model.embed_tokens.weight", [vocabulary, hidden]
    for i in range(layers):
        for name, dims in (("input_layernorm", [hidden]), ("self_attn.q_proj", [heads * size, hidden]), ("self_attn.k_proj", [kv_heads * size, hidden]),
                           ("self_attn.v_proj", [kv_heads * size, hidden]), ("self_attn.o_proj", [hidden, heads * size]), ("post_attention_layernorm", [hidden]),
                           ("mlp.gate_proj", [ffn, hidden]), ("mlp.up_proj", [ffn, hidden]), ("mlp.down_proj", [hidden, ffn])):
            yield f"model.layers.{i}.{name}.weight", dims
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [vocabulary, hidden]


def byte_letters():
    """How byte-level tokenizers write the bytes 0 to 255: printable ones as they are, the others from U+0100 on."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def write_tokenizer(directory, vocabulary):
    """One token per byte, plus words that the model may emit but no text contains. So the model can be served, also over HTTP."""
    specials = ["<s>", "</s>"]
    words = specials + byte_letters()
    words += [f"\u0120w{i}" for i in range(len(words), vocabulary)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, text in enumerate(specials)]
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level,
        "post_processor": None, "decoder": byte_level, "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": {text: i for i, text in enumerate(words)}, "merges": []}}))
    (directory / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"}))


def write_model(directory, shape):
    """bf16 weights in [-1/32, 1/32]: 0x3C00 to 0x3CFF with a random sign, so that no sum overflows; norms are 1."""
    hidden, ffn, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    (directory / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": hidden // heads, "vocab_size": vocabulary, "hidden_act": "silu",
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "bos_token_id": 0, "eos_token_id": 1}))
    write_tokenizer(directory, vocabulary)
    header, at = {}, 0
    for name, dims in tensors_of(shape):
        count = 2
        for d in dims:
            count *= d
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = random.Random(1).randbytes(CHUNK_BYTES // 2)
    pattern = b"".join(struct.pack("<H", 0x3C00 | byte | (byte & 1) << 15) for byte in noise[:1 << 16]) * (CHUNK_BYTES >> 17)
    ones = struct.pack("<H", 0x3F80)
    with open(directory / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, dims in tensors_of(shape):
            begin, end = header[name]["data_offsets"]
            if len(dims) == 1:
                out.write(ones * dims[0])
                continue
            left = end - begin
            while left:
                piece = pattern[:left] if left < len(pattern) else pattern
                out.write(piece)
                left -= len(piece)


def probe(options):
    """The device's limits, measured with torch's Python side; nothing if that is not fully installed."""
    size = 65536 if options.device.startswith("cuda") else 4096
    done = subprocess.run([options.python, "-c", PROBE, options.device.replace("cpu-torch", "cpu"), options.dtype, str(size)], capture_output=True, text=True)
    if done.returncode:
        say("device", 0, "none", reason=(done.stderr.strip().splitlines() or ["no reason given"])[-1])
        return None
    return json.loads(done.stdout)


def measure(options, model, *more):
    tool = options.build_dir / "tests/bench/gpu_bench"
    small = ["--prompt", "64", "--batches", "1,4", "--steps", "4", "--position", "16", "--rounds", "1", "--threads", "2"]
    words = [tool, "--device", options.device, "--model", model, "--dtype", options.dtype, "--engine", options.engine, "--quantization", options.quantization,
             "--group", options.group, *(["--eager"] if options.eager else []), *(["--ahead"] if options.ahead else []), *(more or (small if options.shape == "tiny" else []))]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                          env={**os.environ, "BATON_ENGINES": str(options.build_dir / "cluster/engines")})
    if done.returncode:
        sys.exit(f"gpu_bench: {done.stderr.strip()}")
    return {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}


def measure_attention(options, model):
    """-> (bytes of keys and values, seconds) of a step: what 64 sequences at `far` positions take longer than at `near`."""
    near, far, batch, steps = (16, 48, 4, 4) if options.shape == "tiny" else (64, 4096, 64, 16)
    took = []
    for position in (near, far):
        rows = measure(options, model, "--prompt", 0, "--batches", batch, "--steps", steps, "--position", position)
        took.append(rows[f"step of batch {batch}"]["value"] / 1e6)
    hidden, _, layers, heads, kv_heads, _ = SHAPES[options.shape]
    element = 4 if options.dtype == "float32" else 2
    return batch * (far - near) * layers * 2 * kv_heads * (hidden // heads) * element, took[1] - took[0]


def say_bar(row, value, unit, bar, is_good, is_held):
    """`is_held`: to the bar. -> whether it is missed"""
    say(row, value, unit, **({"bar": bar, "ok": is_good} if is_held else {}))
    return is_held and not is_good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--shape", choices=SHAPES, default="8b")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="bfloat16")
    parser.add_argument("--quantization", choices=("none", "fp8", "int4"), default="none")
    parser.add_argument("--group", type=int, choices=(32, 128), default=128, help="weights of a group of int4")
    parser.add_argument("--eager", action="store_true", help="steps are not recorded")
    parser.add_argument("--ahead", action="store_true", help="steps of decoding are begun before the one ahead of them is over")
    parser.add_argument("--only", choices=("attention", "host"))
    parser.add_argument("--batch", type=int, default=1, help="sequences of --only host")
    parser.add_argument("--python", default=os.environ.get("BATON_TORCH_PYTHON", sys.executable), help="with torch, for what the device can do")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/gpu")
    parser.add_argument("--write", type=pathlib.Path, help="write the model to this directory and end")
    options = parser.parse_args()
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        write_model(options.write, options.shape)
        return 0
    missed = absent = False
    if options.only == "host":
        options.shape = "narrow"
    with tempfile.TemporaryDirectory(prefix="baton-gpu-") as directory:
        write_model(pathlib.Path(directory), options.shape)
        if options.only == "host":
            options.ahead = True
            rows = measure(options, directory, "--prompt", 0, "--batches", options.batch)
            say("step that has nothing to compute", rows[f"step of batch {options.batch}"]["value"], "us")  # the same launches, one after the other
            row = rows[f"begin of a step of batch {options.batch}"]
            is_held = options.device.startswith("cuda") and not options.eager
            return int(say_bar(f"host time per step of batch {options.batch}", row["value"], "us", HOST_BAR_US, row["value"] <= HOST_BAR_US, is_held))
        if options.only == "attention":
            count, seconds = measure_attention(options, directory)
            device = probe(options)
            say("attention of a step", seconds * 1e6, "us")
            if not device:
                return 2
            share = count / seconds / device["copy"] if seconds > 0 else 0
            return int(say_bar("attention 64 x 4096, of copy bandwidth", share, "of 1", ATTENTION_BAR, share >= ATTENTION_BAR, options.shape == "8b"))
        rows = measure(options, directory)
    for row in rows.values():
        say(row["row"], row["value"], row["unit"])
    if device := probe(options):
        say("copy bandwidth", device["copy"] / 1e9, "GB/s")
        say("matmul peak", device["products"] / 1e12, "TFLOP/s")
        hidden, ffn, layers, heads, kv_heads, _ = SHAPES[options.shape]
        weights = layers * (hidden * hidden * (2 + 2 * kv_heads / heads) + 3 * hidden * ffn)
        shares = {"decode batch 1, of copy bandwidth": rows["decode batch 1"]["value"] * rows["weights read by a step"]["value"] / device["copy"]}
        if "prefill 4096" in rows:
            attention = 2 * layers * hidden * 4096  # multiply-adds of a row with half of 4096 keys and values, twice
            shares["prefill 4096, of matmul peak"] = rows["prefill 4096"]["value"] * (2 * weights + attention) / device["products"]
        for name, share in shares.items():
            is_decode = name.startswith("decode")
            bar = PACKED_BAR if options.quantization == "fp8" and is_decode else BARS[name]
            is_held = options.shape == "8b" and (options.quantization == "none" or options.quantization == "fp8" and is_decode)
            missed = say_bar(name, share, "of 1", bar, share >= bar, is_held) or missed
    else:
        absent = True
    return 1 if missed else 2 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
