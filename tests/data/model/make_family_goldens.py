"""Writes families/NAME.gguf, the directory families/NAME and families/NAME.json beside this script. Each model family gets a tiny model
with random weights, as a GGUF file and as transformers saves it, and its answers. Run it by hand in a venv (`pip install torch
transformers gguf numpy`). The committed files were made with transformers 5.23 or 5.24, and torch 2.15. Arguments are the names to write, or none
for all; the results are committed.

The oracle is the family's own class in transformers, in float32, with the weights as stored in the file. One thing is taken from our
engine: keys and values pass through float16 before attention, as in the KV memory. So the two differ only in the order of float32 sums.
Names, layouts and keys of the file are those of llama.cpp's converter: q and k of rotated pairs are permuted, Gemma's norms include their
1.

The directories are in transformers' own format: its config.json, its names, q and k and norms as published. Matrices are in the float16
that holds them exactly, routers in float32, with one tensor per expert. The directory of qwen2 is split into several files.

JSON: prompt_ids, positions and the logits there, and the greedy continuation, whose choices are all clear. The seed is the first one for
which the second best token is never nearer than MARGIN, and DISTINCT tokens occur. In a mixture the scores of a row's last used expert and
first unused one also differ by at least ROUTER_MARGIN, in every layer. Otherwise the order of sums could decide between two experts.
"""
import json
import math
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers as hf
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter
from gguf.quants import dequantize, quantize
from transformers.masking_utils import AttentionMaskInterface, eager_mask

HERE = pathlib.Path(__file__).resolve().parent / "families"
VOCAB, HIDDEN, HEAD = 64, 32, 16
PROMPT, CONTINUATION = 150, 12
# Both sides of every window's edge and of the chunks of 64 positions.
POSITIONS = [0, 1, 7, 39, 40, 41, 63, 64, 65, 103, 104, 127, 128, 149]
MARGIN, DISTINCT, ROUTER_MARGIN = 0.02, 5, 0.002


def attend_over_stored(module, query, key, value, mask, **kwargs):
    stored = [x.to(torch.float16).to(torch.float32) for x in (key, value)]
    return sys.modules[type(module).__module__].eager_attention_forward(module, query, *stored, mask, **kwargs)


hf.AttentionInterface.register("stored_kv", attend_over_stored)
AttentionMaskInterface.register("stored_kv", eager_mask)


# The keys that every family has.
def common(layers, heads, kv_heads, ffn, base):
    return {
        "block_count": layers,
        "context_length": 512,
        "embedding_length": HIDDEN,
        "feed_forward_length": ffn,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": HEAD,
        "rope.freq_base": base,
    }


def config(kind, layers, heads, kv_heads, ffn, **more):
    return kind(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=HEAD, max_position_embeddings=512, rms_norm_eps=1e-6, pad_token_id=None,
        bos_token_id=None, eos_token_id=None, attn_implementation="stored_kv", **more)


def rope(base, **more):
    return {"rope_type": "default", "rope_theta": base, **more}


# name -> architecture, stored type, transformers config, keys of the file, traits of its tensors
FAMILIES = {}


def family(name, arch, stored, layers, heads, kv_heads, base, hf_config, keys=None, ffn=64, **traits):
    cfg = config(hf_config[0], layers, heads, kv_heads, ffn, **hf_config[1])
    keys = common(layers, heads, kv_heads, ffn, base) | (keys or {})
    FAMILIES[name] = dict(arch=arch, stored=stored, cfg=cfg, keys=keys, **traits)


def llama3_factors(base, factor, low, high, original):
    """As in the reference code of Llama 3.1: long waves are stretched, short ones kept, a ramp between them."""
    factors = []
    for i in range(HEAD // 2):
        wavelength = 2 * math.pi * base ** (2 * i / HEAD)
        ramp = min(max((original / wavelength - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - ramp) / factor + ramp))
    return np.array(factors, dtype=np.float32)


family("qwen2", "qwen2", T.F16, 2, 2, 1, 1e6,
       (hf.Qwen2Config, dict(tie_word_embeddings=True, rope_parameters=rope(1e6))), biases=True)
family("qwen3", "qwen3", T.F16, 2, 8, 1, 1e6,
       (hf.Qwen3Config, dict(tie_word_embeddings=False, rope_parameters=rope(1e6))), qk_norm=True)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
family("llama3", "llama", T.F16, 2, 2, 1, 500.0,
       (hf.LlamaConfig, dict(tie_word_embeddings=True, rope_parameters=rope(500.0) | LLAMA3 | {"rope_type": "llama3"})),
       ffn=32, permuted=True, made={"rope_freqs.weight": llama3_factors(500.0, 8.0, 1.0, 4.0, 64)})
family("mistral", "llama", T.F16, 2, 4, 1, 1e4,
       (hf.MistralConfig, dict(tie_word_embeddings=False, sliding_window=40,
                               rope_parameters=rope(1e4, factor=4.0) | {"rope_type": "linear"})),
       {"attention.sliding_window": 40, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, ffn=32, permuted=True)
family("phi3", "phi3", T.F16, 2, 4, 2, 1e4,
       (hf.Phi3Config, dict(tie_word_embeddings=False, sliding_window=40, partial_rotary_factor=0.5,
                            rope_parameters=rope(1e4, partial_rotary_factor=0.5))),
       {"attention.sliding_window": 40, "rope.dimension_count": HEAD // 2}, fused=True)
# Contexts of 64 positions, stretched. The prompt is longer, so longrope takes its long factors.
YARN = dict(factor=4.0, original_max_position_embeddings=64, beta_fast=8.0, beta_slow=0.5)
family("qwen3_yarn", "qwen3", T.F16, 2, 2, 1, 500.0,
       (hf.Qwen3Config, dict(tie_word_embeddings=True, rope_parameters=rope(500.0) | YARN | {"rope_type": "yarn"})),
       {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
        "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 0.5}, ffn=32, qk_norm=True)
LONG, SHORT = [1.0, 1.5, 2.25, 4.0, 6.5, 8.0], [1.0, 1.0, 1.05, 1.1, 1.2, 1.25]
family("phi4mini", "phi3", T.F16, 2, 2, 1, 1e4,
       (hf.Phi3Config, dict(tie_word_embeddings=True, sliding_window=None, original_max_position_embeddings=64,
                            rope_parameters=rope(1e4, partial_rotary_factor=0.75, long_factor=LONG, short_factor=SHORT)
                            | {"rope_type": "longrope"})),
       {"rope.dimension_count": 12, "rope.scaling.original_context_length": 64,
        "rope.scaling.attn_factor": math.sqrt(1 + math.log(512 / 64) / math.log(64))}, fused=True,
       made={"rope_factors_long.weight": np.array(LONG, dtype=np.float32),
             "rope_factors_short.weight": np.array(SHORT, dtype=np.float32)})
family("smollm3", "smollm3", T.F16, 5, 2, 1, 5e6,
       (hf.SmolLM3Config, dict(tie_word_embeddings=True, use_sliding_window=False, rope_parameters=rope(5e6))),
       ffn=32, permuted=True)
family("mixtral", "llama", T.F16, 2, 2, 1, 1e4,
       (hf.MixtralConfig, dict(num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=True, rope_parameters=rope(1e4))),
       {"expert_count": 4, "expert_used_count": 2}, ffn=32, permuted=True, experts=True)
# The published ones normalise the weights, as Mixtral does; this one does not, so that both ways have an oracle.
family("qwen3moe", "qwen3moe", T.F16, 2, 2, 1, 1e6,
       (hf.Qwen3MoeConfig, dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=False,
                                tie_word_embeddings=False, rope_parameters=rope(1e6))),
       {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_weights_norm": False},
       ffn=96, qk_norm=True, experts=True)
GEMMA = dict(tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=HEAD, sliding_window=40)
family("gemma2", "gemma2", T.F16, 3, 4, 2, 1e4,
       (hf.Gemma2Config, dict(GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, rope_parameters=rope(1e4))),
       {"attention.sliding_window": 40, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}, gemma=True)
family("gemma3", "gemma3", T.F16, 6, 2, 1, 1e6,
       (hf.Gemma3TextConfig, dict(GEMMA, rope_parameters={
           "sliding_attention": rope(1e4), "full_attention": rope(1e6, factor=8.0) | {"rope_type": "linear"}})),
       {"attention.sliding_window": 40, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
       ffn=32, qk_norm=True, gemma=True)


# The file's tensors and the model's parameters: name in the file -> name in the model, or (name, i) for the i-th half of
# every expert's rows.
def tensor_map(f):
    cfg, attention, mlp = f["cfg"], "self_attn.", "mlp."
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if not cfg.tie_word_embeddings:
        names["output.weight"] = "lm_head.weight"
    for i in range(cfg.num_hidden_layers):
        layer = {
            "attn_norm.weight": "input_layernorm.weight",
            "attn_output.weight": attention + "o_proj.weight",
            "ffn_norm.weight": "pre_feedforward_layernorm.weight" if f.get("gemma") else "post_attention_layernorm.weight",
            "ffn_down.weight": mlp + "down_proj.weight",
        }
        if f.get("fused"):
            layer |= {"attn_qkv.weight": attention + "qkv_proj.weight", "ffn_up.weight": mlp + "gate_up_proj.weight"}
        else:
            layer |= {f"attn_{x}.weight": f"{attention}{x}_proj.weight" for x in "qkv"}
        if f.get("experts"):
            del layer["ffn_down.weight"]
            layer |= {"ffn_gate_inp.weight": mlp + "gate.weight", "ffn_down_exps.weight": mlp + "experts.down_proj"}
            layer |= {f"ffn_{x}_exps.weight": (mlp + "experts.gate_up_proj", half) for half, x in enumerate(("gate", "up"))}
        elif not f.get("fused"):
            layer |= {f"ffn_{x}.weight": f"{mlp}{x}_proj.weight" for x in ("gate", "up")}
        if f.get("biases"):
            layer |= {f"attn_{x}.bias": f"{attention}{x}_proj.bias" for x in "qkv"}
        if f.get("qk_norm"):
            layer |= {f"attn_{x}_norm.weight": f"{attention}{x}_norm.weight" for x in "qk"}
        if f.get("gemma"):
            layer |= {"post_attention_norm.weight": "post_attention_layernorm.weight",
                      "post_ffw_norm.weight": "post_feedforward_layernorm.weight"}
        in_layer = lambda theirs: f"model.layers.{i}.{theirs}" if isinstance(theirs, str) else (in_layer(theirs[0]), theirs[1])
        names |= {f"blk.{i}.{ours}": in_layer(theirs) for ours, theirs in layer.items()}
    return names


def parameter_of(state, theirs):
    return state[theirs] if isinstance(theirs, str) else state[theirs[0]].chunk(2, dim=1)[theirs[1]]


def drawn(rng, name, shape, scales_embedding):
    """Every matrix keeps the variance of its input; queries and keys are larger, so that attention is far from even."""
    if name == "token_embd.weight":
        return (0.15 if scales_embedding else 0.4) * rng.standard_normal(shape)
    if name.endswith("norm.weight"):
        return 1 + 0.2 * rng.standard_normal(shape)
    if name.endswith(".bias"):
        return 0.5 * rng.standard_normal(shape)
    gain = 2.0 if name == "output.weight" else 1.5 if ".attn_q" in name or ".attn_k" in name else 1.0
    return gain / math.sqrt(shape[-1]) * rng.standard_normal(shape)


def permuted(weights, heads):
    """Rotated halves become rotated pairs, as in llama.cpp's converter."""
    rows = weights.shape[0]
    return weights.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def build(f, seed):
    """The model, and its file's tensors: name -> (stored array, type or None for float32)."""
    rng, cfg = np.random.default_rng(seed), f["cfg"]
    model = hf.AutoModelForCausalLM.from_config(cfg, dtype=torch.float32).eval()
    state, tensors = model.state_dict(), {}
    for ours, theirs in tensor_map(f).items():
        parameter = parameter_of(state, theirs)
        values = drawn(rng, ours, tuple(parameter.shape), f.get("gemma")).astype(np.float32)
        if values.ndim == 1:
            parameter.copy_(torch.from_numpy(values - 1 if f.get("gemma") and "norm" in ours else values))
            tensors[ours] = (values, None)
            continue
        if "ffn_gate_inp" in ours:  # converters keep routers in float32
            parameter.copy_(torch.from_numpy(values))
            tensors[ours] = (values, None)
            continue
        raw = quantize(values, f["stored"])
        values = np.asarray(dequantize(raw, f["stored"]), dtype=np.float32)
        parameter.copy_(torch.from_numpy(values))
        heads = {"attn_q": cfg.num_attention_heads, "attn_k": cfg.num_key_value_heads}.get(ours.split(".")[-2])
        if f.get("permuted") and heads:
            raw = quantize(permuted(values, heads), f["stored"])
            assert np.array_equal(dequantize(raw, f["stored"]), permuted(values, heads))
        tensors[ours] = (raw, f["stored"])
    tensors |= {name: (values, None) for name, values in f.get("made", {}).items()}
    return model, tensors


def watch_routers(model):
    """A list that gets, for every router's call, how near the last expert in use and the first one out come."""
    gaps = []

    def watch(router, _, out):
        best = torch.topk(out[0], router.top_k + 1, dim=-1).values
        gaps.append(float((best[:, -2] - best[:, -1]).min()))

    for module in model.modules():
        if type(module).__name__.endswith("TopKRouter"):
            module.register_forward_hook(watch)
    return gaps


def greedy_answer(model, prompt, positions):
    logits_of = lambda ids: model(torch.tensor([ids]), use_cache=False).logits[0]
    logits, greedy, margin = logits_of(prompt), [], math.inf
    while len(greedy) < CONTINUATION:
        best = torch.topk(logits_of(prompt + greedy)[-1], 2)
        greedy.append(int(best.indices[0]))
        margin = min(margin, float(best.values[0] - best.values[1]))
    rows = [[float(f"{x:.7g}") for x in logits[p].tolist()] for p in positions]
    return dict(prompt_ids=prompt, positions=positions, logits=rows, greedy_ids=greedy), margin


def write(name, f, tensors, golden):
    path = HERE / f"{name}.gguf"
    out = GGUFWriter(path, f["arch"])
    out.add_name(name)
    for key, value in f["keys"].items():
        put = {int: out.add_uint32, float: out.add_float32, str: out.add_string, bool: out.add_bool}[type(value)]
        put(f"{f['arch']}.{key}", value)
    for tensor, (array, kind) in tensors.items():
        out.add_tensor(tensor, array, raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    golden_path = HERE / f"{name}.json"
    golden_path.write_text(json.dumps(golden, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(name, path.stat().st_size + golden_path.stat().st_size, "bytes")


def write_directory(name, f, model):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    state = {key: value.to(torch.float16) if value.ndim > 1 and not key.endswith("mlp.gate.weight") else value
             for key, value in model.state_dict().items() if not (f["cfg"].tie_word_embeddings and key == "lm_head.weight")}
    model.save_pretrained(path, state_dict=state, max_shard_size="12KB" if name == "qwen2" else "1MB")
    (path / "generation_config.json").unlink(missing_ok=True)  # says nothing about logits
    print(name, sum(file.stat().st_size for file in path.iterdir()), "bytes in", sorted(file.name for file in path.iterdir()))


def main(names):
    HERE.mkdir(exist_ok=True)
    torch.set_grad_enabled(False)
    for name in names or FAMILIES:
        f = FAMILIES[name]
        for seed in range(1, 200):
            model, tensors = build(f, seed)
            gaps = watch_routers(model)
            prompt = np.random.default_rng(1000 + seed).integers(0, VOCAB, PROMPT).tolist()
            golden, margin = greedy_answer(model, prompt, POSITIONS)
            router_margin = min(gaps, default=math.inf)
            if margin > MARGIN and router_margin > ROUTER_MARGIN and len(set(golden["greedy_ids"])) >= DISTINCT:
                break
        else:
            sys.exit(f"{name}: no seed gives a clear answer")
        print(name, "seed", seed, "margin", round(margin, 3), "of routers", round(router_margin, 4))
        write(name, f, tensors, golden)
        write_directory(name, f, model)


if __name__ == "__main__":
    main(sys.argv[1:])
