"""Writes the directories families/gptq_NAME and families/gptq_NAME.json beside this script. They are tiny random models with matrices
quantised to 4 bits in the layout of AutoGPTQ and GPTQModel, and their answers. Run it by hand in the venv of make_family_goldens.py; the
results are committed.

The codes are the nearest ones; their quality does not matter here. The oracle is the family's class in transformers, in float32, with the
weights scale * (code - zero) in place. The script
make_family_goldens.py describes the KV rounding and clear answers. The models gptq_qwen2 and gptq_qwen3moe
have the vocabulary of checkpoint/, and their answers are texts.
"""
import json
import math
import shutil

import numpy as np
import torch
import transformers as hf
from make_family_goldens import (CONTINUATION, DISTINCT, HERE, MARGIN, ROUTER_MARGIN, config, drawn, greedy_answer, parameter_of, rope,
                                 tensor_map, watch_routers)
from safetensors.torch import save_file

PROMPT, POSITIONS = 40, [0, 1, 20, 39]
WORDS = hf.AutoTokenizer.from_pretrained(HERE.parent / "checkpoint")
TEXT = "the fox\n\njumps 10 times"


def shaped(kind, hidden, vocab, heads, kv_heads, ffn, layers, **more):
    cfg = config(kind, layers, heads, kv_heads, ffn, **more)
    cfg.hidden_size, cfg.vocab_size = hidden, vocab
    return cfg


CASES = {
    "gptq_llama": dict(
        cfg=shaped(hf.LlamaConfig, 128, 32, 8, 1, 128, 1, tie_word_embeddings=False, rope_parameters=rope(1e4)),
        group=128, symmetric=True, form="gptq", zero_biases=True),
    "gptq_qwen2": dict(
        cfg=shaped(hf.Qwen2Config, 32, len(WORDS), 2, 1, 64, 2, tie_word_embeddings=True, rope_parameters=rope(1e6)),
        group=32, symmetric=False, form="gptq_v2", biases=True, speaks=True),
    "gptq_rows": dict(
        cfg=shaped(hf.LlamaConfig, 32, 64, 2, 1, 64, 2, tie_word_embeddings=False, rope_parameters=rope(1e4)),
        group=-1, symmetric=False, form="gptq", quantises_head=True),
    "gptq_qwen3moe": dict(
        cfg=shaped(hf.Qwen3MoeConfig, 32, len(WORDS), 2, 1, 96, 2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                   norm_topk_prob=True, tie_word_embeddings=True, rope_parameters=rope(1e6)),
        group=32, symmetric=True, form="gptq", zero_biases=True, qk_norm=True, experts="mlp.", speaks=True),
}


def quantised(weights, group, symmetric):
    """Codes [in, out], zero points and scales [groups, out] of weights [out, in]."""
    grouped = weights.T.reshape(-1, weights.shape[1] if group == -1 else group, weights.shape[0])  # [groups, group, out]
    low, high = np.minimum(grouped.min(axis=1), 0), np.maximum(grouped.max(axis=1), 0)
    if symmetric:
        high = np.maximum(-low, high)
        low = -high
    scales = ((high - low) / 15).astype(np.float16)
    steps = scales.astype(np.float32)
    zeros = np.full(scales.shape, 8) if symmetric else np.clip(np.rint(-low / steps), 0, 15)
    codes = np.clip(np.rint(grouped / steps[:, None]) + zeros[:, None], 0, 15)
    return codes.reshape(-1, weights.shape[0]).astype(np.uint32), zeros.astype(np.uint32), scales


def dequantised(codes, zeros, scales):
    rows = codes.shape[0] // zeros.shape[0]
    return (np.repeat(scales.astype(np.float32), rows, axis=0) * (codes.astype(np.float32) - np.repeat(zeros, rows, axis=0).astype(np.float32))).T


def words(codes):
    """Eight neighbours of the last axis in one word, the first in its low bits."""
    eights = codes.reshape(*codes.shape[:-1], -1, 8)
    return sum(eights[..., i] << np.uint32(4 * i) for i in range(8)).astype(np.uint32)


def stored(codes, zeros, scales, form):
    packed = words(zeros) - np.uint32(0x11111111 if form == "gptq" else 0)  # wraps round, as GPTQModel's subtraction
    groups = np.repeat(np.arange(len(zeros)), codes.shape[0] // len(zeros))
    arrays = {"qweight": words(codes.T).T.view(np.int32), "qzeros": packed.view(np.int32), "scales": scales, "g_idx": groups.astype(np.int32)}
    return {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()}


def modules(ours, theirs, parameter):
    """The stored form of a parameter: modules with their weights, one per expert."""
    if parameter.ndim == 2:
        return [(theirs.removesuffix(".weight"), parameter)]
    experts = (theirs if isinstance(theirs, str) else theirs[0]).rsplit(".", 1)[0]
    role = ours.split(".")[-2].removeprefix("ffn_").removesuffix("_exps")
    return [(f"{experts}.{i}.{role}_proj", parameter[i]) for i in range(len(parameter))]


def build(case, seed):
    rng, cfg = np.random.default_rng(seed), case["cfg"]
    model = hf.AutoModelForCausalLM.from_config(cfg, dtype=torch.float32).eval()
    state, tensors = model.state_dict(), {}
    for ours, theirs in tensor_map(case).items():
        parameter = parameter_of(state, theirs)
        values = drawn(rng, ours, tuple(parameter.shape), False).astype(np.float32)
        if ours == "token_embd.weight" and case.get("speaks"):
            unreadable = [i for i in range(len(WORDS)) if i in WORDS.all_special_ids or not WORDS.decode([i]).isprintable() or not WORDS.decode([i]).isascii()]
            values[unreadable] *= 0.01  # near zero is never the best
        if values.ndim == 1 or ours == "token_embd.weight" or "ffn_gate_inp" in ours or ours == "output.weight" and not case.get("quantises_head"):
            tensors[theirs] = torch.from_numpy(values).to(torch.float16)
            state[theirs].copy_(tensors[theirs])
            continue
        if not case["symmetric"]:
            values[:3] = abs(values[:3])  # zero points of 0
        parameter.copy_(torch.from_numpy(values))
        for module, weights in modules(ours, theirs, parameter):
            codes, zeros, scales = quantised(weights.numpy(), case["group"], case["symmetric"])
            assert case["symmetric"] or (zeros == 0).any()
            weights.copy_(torch.from_numpy(dequantised(codes, zeros, scales)))
            tensors |= {f"{module}.{key}": value for key, value in stored(codes, zeros, scales, case["form"]).items()}
            if case.get("zero_biases"):  # as AutoGPTQ stores them
                tensors[f"{module}.bias"] = torch.zeros(len(weights), dtype=torch.float16)
    return model, tensors


def answer(case, model, rng):
    if case.get("speaks"):
        prompt = WORDS.apply_chat_template([{"role": "user", "content": TEXT}], add_generation_prompt=True, return_dict=False)
    else:
        prompt = rng.integers(0, case["cfg"].vocab_size, PROMPT).tolist()
    positions = [p for p in POSITIONS if p < len(prompt)]
    golden, margin = greedy_answer(model, prompt, positions)
    if case.get("speaks"):
        golden |= {"prompt": TEXT, "text": WORDS.decode(golden["greedy_ids"], skip_special_tokens=True)}
    return golden, margin


def is_clear(golden, margin):
    text = golden.get("text", "")
    return margin > MARGIN and len(set(golden["greedy_ids"])) >= DISTINCT and text == text.strip()


def write(name, case, tensors, golden):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    case["cfg"].architectures = [type(case["cfg"]).__name__.replace("Config", "ForCausalLM")]
    case["cfg"].save_pretrained(path)
    made = json.loads((path / "config.json").read_text()) | {"quantization_config": {
        "quant_method": "gptq", "bits": 4, "group_size": case["group"], "sym": case["symmetric"], "desc_act": False,
        "lm_head": case.get("quantises_head", False), "checkpoint_format": case["form"], "pack_dtype": "int32",
        "meta": {"quantizer": ["make_gptq_goldens.py"]}}}
    (path / "config.json").write_text(json.dumps(made, indent=2) + "\n")
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    golden_path = HERE / f"{name}.json"
    golden_path.write_text(json.dumps(golden, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(name, golden_path.stat().st_size + sum(file.stat().st_size for file in path.iterdir()), "bytes", repr(golden.get("text")))


def main():
    torch.set_grad_enabled(False)
    for name, case in CASES.items():
        for seed in range(1, 3000):
            model, tensors = build(case, seed)
            gaps = watch_routers(model)
            golden, margin = answer(case, model, np.random.default_rng(1000 + seed))
            if is_clear(golden, margin) and min(gaps, default=math.inf) > ROUTER_MARGIN:
                break
        else:
            raise SystemExit(f"{name}: no seed gives a clear answer")
        print(name, "seed", seed, "margin", round(margin, 3), "of", CONTINUATION, "tokens, of routers", round(min(gaps, default=math.inf), 4))
        write(name, case, tensors, golden)


if __name__ == "__main__":
    main()
