"""Writes the directories families/NAME and families/NAME.json of CASES beside this script: tiny random models with matrices stored in
published formats (quantised_stores.py), and their answers. Run it by hand in the venv of make_family_goldens.py, with names or for all;
the results are committed.

The oracle is the family's class in transformers, in float32, with the numbers that the stored tensors mean. `weights` of the JSON has a
hash of every quantised tensor's numbers, by GGUF's name: FNV-1a over the bits of each as float32, without the sign of a zero. Where transformers or
compressed-tensors (if it is installed) converts a format on CPU, its numbers are compared with ours, in 16 bits."""
import json
import math
import shutil
import sys

import numpy as np
import quantised_stores as stores
import torch
import transformers as hf
from make_family_goldens import FAMILIES, HERE, ROUTER_MARGIN, drawn, parameter_of, rope, tensor_map, watch_routers
from make_gptq_goldens import WORDS, answer, is_clear, modules, shaped
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

LLAMA = dict(tie_word_embeddings=False, rope_parameters=rope(1e4))


def llama(hidden=64, ffn=96, layers=1, vocab=32, heads=2):
    return shaped(hf.LlamaConfig, hidden, vocab, heads, 1, ffn, layers, **LLAMA)


def fp8_config(**more):
    return {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"} | more


def compressed(form, ignore=("lm_head",), **weights):
    """As llm-compressor writes it."""
    group = {"targets": ["Linear"], "input_activations": None, "output_activations": None, "weights": {
        "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": None, "block_structure": None, "actorder": None,
        "dynamic": False, "observer": "minmax"} | weights}
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": list(ignore),
            "kv_cache_scheme": None, "config_groups": {"group_0": group}, "global_compression_ratio": None}


CASES = {
    "fp8_qwen3": dict(  # the last blocks are not full
        cfg=shaped(hf.Qwen3Config, 160, 32, 2, 1, 192, 1, tie_word_embeddings=False, rope_parameters=rope(1e6)), qk_norm=True,
        store=lambda w, rng: stores.fp8(w, (128, 128), scale_name="weight_scale_inv"),
        config=fp8_config(weight_block_size=[128, 128], modules_to_not_convert=["lm_head"])),
    "fp8_qwen3moe": dict(
        cfg=shaped(hf.Qwen3MoeConfig, 64, 64, 2, 1, 96, 2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                   norm_topk_prob=True, tie_word_embeddings=False, rope_parameters=rope(1e6)),
        qk_norm=True, experts="mlp.",
        store=lambda w, rng: stores.fp8(w, (32, 32), scale_name="weight_scale_inv", scale_type=torch.bfloat16),
        config=fp8_config(weight_block_size=[32, 32], modules_to_not_convert=["lm_head", "model.layers.0.mlp.gate"])),
    "fp8_qwen2": dict(
        cfg=shaped(hf.Qwen2Config, 32, len(WORDS), 2, 1, 64, 2, tie_word_embeddings=True, rope_parameters=rope(1e6)), biases=True,
        speaks=True, store=lambda w, rng: stores.fp8(w, (16, 32), scale_name="weight_scale_inv"),
        config=fp8_config(weight_block_size=[16, 32])),
    "fp8_llama": dict(  # a scale a matrix, and scales of activations
        cfg=llama(), store=lambda w, rng: stores.fp8(w, scale_name="weight_scale_inv", scale_type=torch.bfloat16, scale_shape=()),
        beside={"activation_scale": torch.tensor(0.5, dtype=torch.bfloat16)}, floats=["model.layers.0.mlp.down_proj"],
        config=fp8_config(activation_scheme="static", modules_to_not_convert=["model.layers.0.mlp.down_proj", "lm_head"])),
    "awq_qwen2": dict(
        cfg=shaped(hf.Qwen2Config, 64, len(WORDS), 4, 1, 128, 2, tie_word_embeddings=True, rope_parameters=rope(1e6)), biases=True,
        speaks=True, float_type=torch.float16, store=lambda w, rng: stores.awq(w, 64), floats=["model.layers.1.mlp.up_proj"],
        config={"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm", "backend": "autoawq",
                "modules_to_not_convert": ["model.layers.1.mlp.up_proj"]}),
    "ct_pack": dict(
        cfg=llama(), float_type=torch.float16, store=lambda w, rng: stores.packed(w, 32), floats=["model.layers.0.mlp.up_proj"],
        config=compressed("pack-quantized", ["lm_head", "model.layers.0.mlp.up_proj"], group_size=32)),
    "ct_pack_zeros": dict(
        cfg=llama(), float_type=torch.float16, store=lambda w, rng: stores.packed(w, 32, symmetric=False),
        config=compressed("pack-quantized", group_size=32, symmetric=False)),
    "ct_pack_order": dict(
        cfg=llama(heads=4), store=lambda w, rng: stores.packed(w, 32, symmetric=False, order=rng, is_exact=False),
        config=compressed("pack-quantized", group_size=32, symmetric=False, actorder="group")),
    "ct_pack8": dict(
        cfg=llama(), float_type=torch.float16, store=lambda w, rng: stores.packed(w, -1, bits=8, scale_type=torch.float16),
        config=compressed("pack-quantized", num_bits=8, strategy="channel")),
    "ct_int8": dict(
        cfg=llama(), float_type=torch.float16, store=lambda w, rng: stores.int8(w), config=compressed("int-quantized", num_bits=8, strategy="channel")),
    "ct_int8_f32": dict(
        cfg=llama(), store=lambda w, rng: stores.int8(w, torch.float32), config=compressed("int-quantized", num_bits=8, strategy="channel")),
    "ct_fp8": dict(
        cfg=llama(), store=lambda w, rng: stores.fp8(w, per_output=True, scale_type=torch.bfloat16),
        beside={"input_scale": torch.tensor([0.5])}, config=compressed("float-quantized", num_bits=8, type="float", strategy="channel")),
    "gpt_oss_mxfp4": FAMILIES["gpt_oss"] | dict(float_type=torch.float16, config={"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}),
    "ct_nvfp4": dict(
        cfg=llama(heads=4), store=lambda w, rng: stores.nvfp4(w), config=compressed(
            "nvfp4-pack-quantized", type="float", strategy="tensor_group", group_size=16)),
    "nvfp4_modelopt": dict(
        cfg=llama(heads=4), store=lambda w, rng: stores.nvfp4(w, True), beside={"input_scale": torch.tensor(0.5)},
        config={"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "producer": {"name": "modelopt"}}),
    "ct_mxfp4": dict(
        cfg=llama(heads=4), float_type=torch.float16, store=lambda w, rng: stores.linear_mxfp4(w), config=compressed(
            "mxfp4-pack-quantized", type="float", strategy="group", group_size=32)),
    "gptq_order": dict(
        cfg=llama(heads=4), float_type=torch.float16, store=lambda w, rng: stores.gptq(w, 32, order=rng),
        config={"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": True, "checkpoint_format": "gptq"}),
    "gptq_bytes": dict(
        cfg=llama(), float_type=torch.float16, store=lambda w, rng: stores.gptq(w, 32, bits=8),
        config={"quant_method": "gptq", "bits": 8, "group_size": 32, "sym": True, "desc_act": False, "checkpoint_format": "gptq"}),
}


def fnv1a(numbers):
    found = 0xCBF29CE484222325
    for number in (np.ascontiguousarray(numbers, dtype=np.float32) + np.float32(0)).view(np.uint32).ravel().tolist():
        found = (found ^ number) * 0x100000001B3 % 2**64
    return f"{found:016x}"


def build(case, seed):
    rng, cfg = np.random.default_rng(seed), case["cfg"]
    model = hf.AutoModelForCausalLM.from_config(cfg, dtype=torch.float32).eval()
    state, tensors, hashes = model.state_dict(), {}, {}
    for ours, theirs in tensor_map(case).items():
        parameter = parameter_of(state, theirs)
        values = drawn(rng, ours, tuple(parameter.shape), False).astype(np.float32)
        if ours == "token_embd.weight" and case.get("speaks"):
            unreadable = [i for i in range(len(WORDS)) if i in WORDS.all_special_ids or not WORDS.decode([i]).isprintable() or not WORDS.decode([i]).isascii()]
            values[unreadable] *= 0.01  # near zero is never the best
        if "experts" in theirs[0] and ours.endswith(".bias"):  # halves of a tensor
            parameter.copy_(torch.from_numpy(values).to(case["float_type"]))
            tensors[theirs[0]] = state[theirs[0]].to(case["float_type"])
            continue
        is_float = values.ndim == 1 or ours in ("token_embd.weight", "output.weight") or "ffn_gate_inp" in ours or "attn" in ours and "store" not in case
        is_float = is_float or ours.endswith(".bias")
        is_float = is_float or isinstance(theirs, str) and theirs.removesuffix(".weight") in case.get("floats", [])
        if is_float:
            tensors[theirs] = torch.from_numpy(values).to(case.get("float_type", torch.bfloat16))
            parameter.copy_(tensors[theirs])
            continue
        parameter.copy_(torch.from_numpy(values))
        hashes[ours] = parameter
        if "store" not in case:
            continue
        for module, weights in modules(ours, theirs, parameter):
            numbers, stored = case["store"](weights.numpy(), rng)
            weights.copy_(torch.from_numpy(numbers))
            tensors |= {f"{module}.{key}": value for key, value in stored.items()}
            tensors |= {f"{module}.{key}": value.clone() for key, value in case.get("beside", {}).items()}
    for key in [key for key in state if key.endswith("_proj") and "store" not in case]:  # gpt-oss has inputs before outputs
        numbers, stored = stores.mxfp4(state[key].transpose(1, 2).numpy())
        state[key].copy_(torch.from_numpy(numbers).transpose(1, 2))
        tensors |= {f"{key}_{role}": value for role, value in stored.items()}
        assert torch.equal(convert_moe_packed_tensors(stored["blocks"], stored["scales"]).to(torch.float32), state[key]), key
    return model, tensors, hashes


def check_with_compressed_tensors(config, tensors, quantised, compared):
    """The library's conversion of every module."""
    try:
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationScheme
    except ImportError:
        return
    if config["config_groups"]["group_0"]["weights"]["actorder"]:
        return  # of older versions
    scheme = QuantizationScheme.model_validate(config["config_groups"]["group_0"])
    convert = BaseCompressor.get_value_from_registry(config["format"]).decompress
    for name in tensors:
        module, _, role = name.rpartition(".")
        if role in ("weight", "weight_packed") and f"{module}.weight_scale" in tensors:
            parts = {key.rpartition(".")[2]: value for key, value in tensors.items() if key.startswith(module + ".")}
            parts |= {"weight_shape": torch.Size(parts["weight_shape"].tolist())} if "weight_shape" in parts else {}
            theirs = convert(parts, scheme)["weight"]
            kind = torch.bfloat16 if theirs.dtype == torch.float32 else theirs.dtype  # of the scales
            assert torch.equal(theirs.to(kind), quantised[module + ".weight"].to(kind)), name
            compared.append(name)


def check_with_transformers(config, tensors, compared):
    """transformers' own conversion of FP8 with full blocks."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    convert = Fp8Dequantize(None)._dequantize_one
    for name, scale in tensors.items():
        weight = tensors.get(name.removesuffix("_scale_inv"))
        if not name.endswith("weight_scale_inv"):
            continue
        size = config.get("weight_block_size") or weight.shape
        if all(n % b == 0 for n, b in zip(weight.shape, size)):
            theirs = convert(weight, scale.reshape(1, 1) if scale.ndim == 0 else scale, torch.bfloat16).to(torch.float32).numpy()
            rows = -(-np.arange(1, weight.shape[0] + 1) // size[0]) - 1
            columns = -(-np.arange(1, weight.shape[1] + 1) // size[1]) - 1
            steps = scale.to(torch.float32).numpy().reshape(rows.max() + 1, columns.max() + 1)[rows][:, columns]
            assert np.array_equal(theirs, stores.bfloat16(weight.to(torch.float32).numpy() * steps)), name
            compared.append(name)


def write(name, case, tensors, golden):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    case["cfg"].architectures = [type(case["cfg"]).__name__.replace("Config", "ForCausalLM")]
    case["cfg"].save_pretrained(path)
    made = json.loads((path / "config.json").read_text()) | {"quantization_config": case["config"]}
    (path / "config.json").write_text(json.dumps(made, indent=2) + "\n")
    save_file({key: value.contiguous() for key, value in tensors.items()}, path / "model.safetensors", {"format": "pt"})
    golden_path = HERE / f"{name}.json"
    golden_path.write_text(json.dumps(golden, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(name, golden_path.stat().st_size + sum(file.stat().st_size for file in path.iterdir()), "bytes", repr(golden.get("text")))


def main(names):
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    for name in names or CASES:
        case = CASES[name]
        for seed in range(1, 3000):
            model, tensors, quantised = build(case, seed)
            gaps = watch_routers(model)
            golden, margin = answer(case, model, np.random.default_rng(1000 + seed))
            if is_clear(golden, margin) and min(gaps, default=math.inf) > ROUTER_MARGIN:
                break
        else:
            raise SystemExit(f"{name}: no seed gives a clear answer")
        print(name, "seed", seed, "margin", round(margin, 3), "of routers", round(min(gaps, default=math.inf), 4))
        golden["weights"] = {ours: fnv1a(parameter.numpy()) for ours, parameter in quantised.items()}
        compared = []
        if case["config"]["quant_method"] == "compressed-tensors":
            check_with_compressed_tensors(case["config"], tensors, model.state_dict(), compared)
        if case["config"]["quant_method"] == "fp8":
            check_with_transformers(case["config"], tensors, compared)
        print(name, len(compared), "matrices equal those of their library")
        write(name, case, tensors, golden)


if __name__ == "__main__":
    main(sys.argv[1:])
