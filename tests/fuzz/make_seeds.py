"""Writes the binary seeds: tiny model files, WebSocket frames, gRPC messages. python3 tests/fuzz/make_seeds.py"""
import gzip
import io
import json
import math
import pathlib
import struct
import tarfile

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds"


def put(name, data):
    path = SEEDS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A GGUF metadata entry; lists are arrays of their elements' kind."""
    def one(v):
        if isinstance(v, bool):
            return 7, struct.pack("<?", v)
        if isinstance(v, int):
            return 4, struct.pack("<I", v)
        if isinstance(v, float):
            return 6, struct.pack("<f", v)
        return 8, string(v)
    if isinstance(value, list):
        kinds = [one(v) for v in value]
        return string(key) + struct.pack("<IIQ", 9, kinds[0][0], len(kinds)) + b"".join(b for _, b in kinds)
    kind, data = one(value)
    return string(key) + struct.pack("<I", kind) + data


def gguf(metadata, tensors):
    """All tensors f32 of small numbers."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(entry(k, v) for k, v in metadata.items())
    data = b""
    for name, shape in tensors.items():
        head += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, len(data))
        count = 1
        for n in shape:
            count *= n
        data += struct.pack(f"<{count}f", *(i % 7 / 8 for i in range(count)))
        data += b"\0" * (-len(data) % 32)
    return head + b"\0" * (-len(head) % 32) + data


def llama(**changed):
    return {"general.architecture": "llama", "general.name": "seed", "llama.block_count": 1, "llama.context_length": 64,
            "llama.embedding_length": 8, "llama.feed_forward_length": 8, "llama.attention.head_count": 2,
            "llama.attention.head_count_kv": 1, "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 4,
            "llama.vocab_size": 6, **changed}


TENSORS = {"token_embd.weight": [8, 6], "output_norm.weight": [8], "blk.0.attn_norm.weight": [8], "blk.0.attn_q.weight": [8, 8],
           "blk.0.attn_k.weight": [8, 4], "blk.0.attn_v.weight": [8, 4], "blk.0.attn_output.weight": [8, 8],
           "blk.0.ffn_norm.weight": [8], "blk.0.ffn_gate.weight": [8, 8], "blk.0.ffn_up.weight": [8, 8], "blk.0.ffn_down.weight": [8, 8]}
WORDS = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.chat_template": "{{ messages[0].content }}"}


def gguf_seeds():
    bpe = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": ["e", "<s>", "</s>", "h", "he", "a"],
           "tokenizer.ggml.merges": ["h e"], "tokenizer.ggml.token_type": [1, 3, 3, 1, 1, 1]}
    pieces = {"tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "\u2581", "h", "\u2581h"],
              "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0, -2.0, -3.0], "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1],
              "tokenizer.ggml.unknown_token_id": 0}
    put("gguf/bpe.gguf", gguf(llama(**bpe, **WORDS), TENSORS))
    for model in ("llama", "t5"):
        put(f"gguf/{model}.gguf", gguf(llama(**{"tokenizer.ggml.model": model}, **pieces, **WORDS), TENSORS))


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_seeds():
    """For the configs in safetensors.cpp: 32 wide, in groups of 32 or blocks of 16."""
    half = lambda *shape: ("F16", list(shape), struct.pack("<e", 0.5) * (shape[0] * (shape[1] if len(shape) > 1 else 1)))
    words = lambda value, *shape: ("I32", list(shape), struct.pack("<I", value) * (shape[0] * (shape[1] if len(shape) > 1 else 1)))
    norms = {"model.embed_tokens.weight": half(4, 32), "model.norm.weight": half(32)}
    layer = "model.layers.0."
    matrices = {"self_attn.q_proj": 32, "self_attn.k_proj": 16, "self_attn.v_proj": 16, "self_attn.o_proj": 32, "mlp.gate_proj": 32,
                "mlp.up_proj": 32, "mlp.down_proj": 32}
    norms |= {layer + "input_layernorm.weight": half(32), layer + "post_attention_layernorm.weight": half(32)}
    put("safetensors/plain.safetensors", safetensors(norms | {f"{layer}{m}.weight": half(out, 32) for m, out in matrices.items()}))
    quantised = dict(norms)
    for name, out in matrices.items():
        quantised |= {f"{layer}{name}.qweight": words(0x98765432, 4, out), f"{layer}{name}.qzeros": words(0x77777777, 1, out // 8),
                      f"{layer}{name}.scales": half(1, out), f"{layer}{name}.g_idx": words(0, 32)}
    put("safetensors/gptq.safetensors", safetensors(quantised))
    filled = lambda dtype, value, *shape: (dtype, list(shape), value * math.prod(shape))
    single = lambda *shape: filled("F32", struct.pack("<f", 0.01), *shape)
    for name, tensors_of in {
        "fp8": (lambda out: {"weight": filled("F8_E4M3", b"\x39", out, 32), "weight_scale_inv": single(out // 16, 2), "input_scale": single(1)}),
        "awq": (lambda out: {"qweight": words(0x98765432, 32, out // 8), "qzeros": words(0x77777777, 1, out // 8), "scales": half(1, out)}),
        "packed": (lambda out: {"weight_packed": words(0x98765432, out, 4), "weight_scale": half(out, 1), "weight_zero_point": words(0x87, out // 8, 1),
                                    "weight_shape": ("I64", [2], struct.pack("<QQ", out, 32)), "weight_g_idx": words(0, 32)}),
        "int8": (lambda out: {"weight": filled("I8", b"\x80", out, 32), "weight_scale": single(out, 1)}),
        "nvfp4": (lambda out: {"weight_packed": filled("U8", b"\x9a", out, 16), "weight_scale": filled("F8_E4M3", b"\x39", out, 2),
                               "weight_global_scale": single(1)}),
        "mxfp4": (lambda out: {"weight_packed": filled("U8", b"\x9a", out, 16), "weight_scale": filled("U8", b"\x7a", out, 1)}),
        "modelopt": (lambda out: {"weight": filled("U8", b"\x9a", out, 16), "weight_scale": filled("F8_E4M3", b"\x39", out, 2),
                                  "weight_scale_2": single()}),
        "fp8_rows": (lambda out: {"weight": filled("F8_E4M3", b"\x39", out, 32), "weight_scale": single(out, 1)}),
    }.items():
        put(f"safetensors/{name}.safetensors", safetensors(norms | {
            f"{layer}{module}.{role}": tensor for module, out in matrices.items() for role, tensor in tensors_of(out).items()}))


def frame(opcode, text, mask=b"\0\0\0\0", final=True):
    data = text.encode()
    length = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(data))
    return bytes([(0x80 if final else 0) | opcode]) + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def websocket_seeds():
    start = '{"type":"start","id":"a","prompt":"hi","max_tokens":4,"window":2}'
    put("websocket/life", frame(1, start) + frame(1, '{"type":"ack","id":"a","index":2}') + frame(1, '{"type":"cancel","id":"a"}')
        + frame(8, "\x03\u00e8"))
    guided = '{"type":"start","id":"a","prompt":"hi","guided_choice":["a"]}'
    put("websocket/mark", frame(1, "\ufeff" + guided) + frame(1, " \t\r\n" + guided) + frame(1, "\ufeff"))
    put("websocket/parts", frame(1, start[:20], final=False) + frame(9, "ping") + frame(0, start[20:], mask=b"mask") + frame(10, ""))
    put("websocket/long", frame(1, '{"type":"start","id":"b","messages":[{"role":"user","content":"' + "x" * 200 + '"}]}') + frame(2, "b"))


def tokenizer_json_seeds():
    """The shapes of tokenizer.json in the goldens, with a few tokens each."""
    shapes = json.loads((SEEDS.parent.parent / "data/text/tokenizer_json_goldens.json").read_text())
    for shape in shapes:
        tokenizer = shape["tokenizer"]
        model = tokenizer["model"]
        is_unigram = model["type"] == "Unigram"
        merges = [] if is_unigram else [m if isinstance(m, list) else m.split(" ") for m in model["merges"][:4]]
        added = [t["content"] for t in tokenizer["added_tokens"]]
        fallback = [f"<0x{b:02X}>" for b in range(256)] if model.get("byte_fallback") else []
        words = list(dict.fromkeys(["<unk>", *added, "\u2581", "\u0120", "a", "e", *fallback, *(w for a, b in merges for w in (a, b, a + b))]))
        ids = {w: i for i, w in enumerate(words)}
        if is_unigram:
            model["vocab"], model["unk_id"] = [[w, -float(i)] for w, i in ids.items()], ids["<unk>"]
        else:
            as_lists = model["merges"] and isinstance(model["merges"][0], list)
            model["vocab"], model["merges"] = ids, [m if as_lists else " ".join(m) for m in merges]
        for token in tokenizer["added_tokens"]:
            token["id"] = ids[token["content"]]
        for processor in [tokenizer["post_processor"] or {}, *(tokenizer["post_processor"] or {}).get("processors", [])]:
            for name, special in processor.get("special_tokens", {}).items():
                special["ids"] = [ids[name]]
        put(f"tokenizer_json/{shape['name'].replace(',', '').replace(' ', '_')}", json.dumps(tokenizer, separators=(",", ":")).encode())


def field(number, value):
    """A protobuf field: a text, the bytes of a message, or a number."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    assert len(data) < 1 << 14
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + size + data


def infer_input(name, datatype, contents):
    return field(5, field(1, name) + field(2, datatype) + field(3, 1) + field(5, contents))


def grpc_seeds():
    """The first byte is the index of the method in grpc_methods.cpp."""
    infer = field(1, "m") + field(3, "id") + infer_input("text_input", "BYTES", field(8, "Hello")) + infer_input("stream", "BOOL", field(1, 1))
    limit = field(4, field(1, "max_tokens") + field(2, field(2, 3)))
    put("grpc/model_infer", bytes([10]) + field(1, "m") + infer_input("text_input", "BYTES", field(8, "Hello")) + limit)
    put("grpc/model_infer_raw", bytes([10]) + field(1, "m") + field(5, field(1, "text_input") + field(2, "BYTES") + field(3, 1)) + field(7, b"\5\0\0\0Hello"))
    put("grpc/model_stream_infer", bytes([11]) + infer + field(4, field(1, "triton_enable_empty_final_response") + field(2, field(1, 1))))
    inner = infer_input("sampling_parameters", "BYTES", field(8, '\ufeff{"structured_outputs": {"choice": ["a"]}}'))
    put("grpc/sampling_parameters", bytes([10]) + field(1, "m") + infer_input("text_input", "BYTES", field(8, "Hello")) + inner)
    guided = field(4, field(1, "guided_decoding") + field(2, field(3, '\ufeff{"json": {"type": "null"}}')))
    put("grpc/guided_decoding", bytes([10]) + field(1, "m") + infer_input("text_input", "BYTES", field(8, "Hello")) + guided)
    put("grpc/prediction_with_mark", bytes([21]) + field(1, "m") + field(3, field(1, "data") + field(2, '\ufeff{"prompt": "x", "guided_choice": ["a"]}')))
    put("grpc/model_config", bytes([5]) + field(1, "m"))
    put("grpc/predictions", bytes([21]) + field(1, "m") + field(3, field(1, "data") + field(2, '{"prompt": "Hello", "max_new_tokens": 3}')))
    put("grpc/scale_worker", bytes([27]) + field(1, "m") + field(4, 2))


def onnx_value(name, element, *dims):
    """-1: of any size"""
    shape = b"".join(field(1, field(2, "any") if n < 0 else field(1, n)) for n in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def onnx(inputs, outputs, more=b""):
    graph = field(1, field(4, "Add")) + field(2, "g") + more
    graph += b"".join(field(11, onnx_value(*i)) for i in inputs) + b"".join(field(12, onnx_value(*o)) for o in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def onnx_seeds():
    """The target triton_config also completes its configuration from model.onnx."""
    constant = field(1, 2) + field(2, 1) + field(8, "W")
    weights = field(5, constant + field(9, b"w" * 300)) + field(15, field(1, field(8, "S")) + field(3, 4))
    put("onnx_file/model.onnx", onnx([("A", 1, -1, 2), ("B", 8, -1, 3, -1), ("W", 1, 2), ("S", 1, 4)], [("C", 7, -1, 2)], weights))
    put("onnx_file/fixed", onnx([("na\u00efve", 11, 5)], [("C", 9, 5), ("D", 10)]))
    put("onnx_file/no_shape", onnx([], []) + field(7, field(12, field(1, "C") + field(2, field(1, field(1, 1))))))


def tensor_info(element, *dims):
    """Without dims: of unknown rank."""
    shape = b"".join(field(2, field(1, n)) for n in dims) if dims else field(3, 1)
    return field(1, "at:0") + field(2, element) + field(3, shape)


def saved_model(tag, signatures):
    """`signatures`: by name (inputs, outputs), each of rows (name, element, dims...)."""
    def entry(number, key, value):
        return field(number, field(1, key) + field(2, value))

    graph = field(1, field(4, tag)) + field(2, b"g" * 300)
    for name, (inputs, outputs) in signatures.items():
        tensors = [entry(number, row[0], tensor_info(*row[1:])) for number, rows in ((1, inputs), (2, outputs)) for row in rows]
        graph += entry(5, name, b"".join(tensors) + field(3, "tensorflow/serving/predict"))
    return field(1, 1) + field(2, graph)


def saved_model_seeds():
    served = {"serving_default": ([("x", 1, 2, 2), ("y", 7, 5)], [("sum", 9, 1)]), "init": ([], [])}
    put("saved_model/served", saved_model("serve", served))
    put("saved_model/named", saved_model("train", {"named": ([("x", 10, 1)], [("y", 3, 4)]), "other": ([], [("z", 1, 1)])}))
    put("saved_model/unknown_rank", saved_model("serve", {"serving_default": ([("x", 1)], [("y", 1, 1)])}))


def archive_seeds():
    """The zip entries are those of torch-model-archiver."""
    def tar(files, pack):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as made:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                if text is None:
                    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                else:
                    info.size = len(text)
                made.addfile(info, None if text is None else io.BytesIO(text.encode()))
        return pack(out.getvalue())

    about = {"modelName": "m", "modelVersion": "1.0", "handler": "h.py", "configFile": "c.yaml", "requirementsFile": "r.txt"}
    manifest, settings = json.dumps({"runtime": "python", "model": about}), "minWorkers: 2\nbatchSize: 4\n"
    whole = {"m/c.yaml": settings, "m/h.py": "x", "m/r.txt": "y", "m/MAR-INF/MANIFEST.json": manifest}
    put("model_archive/archiver.tar.gz", tar(whole, lambda b: gzip.compress(b, mtime=0)))
    put("model_archive/flat.tar", tar({f"./{name[2:]}": text for name, text in whole.items()}, bytes))
    put("model_archive/link.tar", tar({"m/c.yaml": None, "m/MAR-INF/MANIFEST.json": manifest}, bytes))
    put("model_archive/outside.tar", tar({"../c.yaml": settings, "../MAR-INF/MANIFEST.json": manifest}, bytes))


if __name__ == "__main__":
    archive_seeds()
    onnx_seeds()
    saved_model_seeds()
    tokenizer_json_seeds()
    gguf_seeds()
    safetensors_seeds()
    websocket_seeds()
    grpc_seeds()
