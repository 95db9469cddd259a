"""Writes ropes.json beside this script: the frequencies and the magnitude that transformers gives for scaled rotations. Run it by hand
in the venv of make_family_goldens.py. Made with transformers 5.24; the result is committed.

Each entry has the family of tests/data/model/families whose config.json gets the fields of `config`, and the served length.
"""
import json
import pathlib

import transformers as hf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = pathlib.Path(__file__).resolve().parent
FACTORS = {"long_factor": [1.0, 1.5, 2.25, 4.0, 6.5, 8.0], "short_factor": [1.0, 1.0, 1.05, 1.1, 1.2, 1.25]}


def yarn(base, factor, original, **more):
    return {"rope_type": "yarn", "rope_theta": base, "factor": factor, "original_max_position_embeddings": original, **more}


def longrope(**more):
    return {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 64,
            **FACTORS, **more}


CASES = [
    # The scalings of Qwen 2.5 and 3, gpt-oss, DeepSeek V3 and Ministral 3, for heads of 16.
    ("qwen3_yarn", 512, yarn(1e6, 4.0, 32768)),
    ("qwen3_yarn", 512, yarn(150000.0, 32.0, 4096, beta_fast=32.0, beta_slow=1.0, truncate=False)),
    ("qwen3_yarn", 512, yarn(10000.0, 40.0, 4096, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=0.5)),
    ("qwen3_yarn", 512, yarn(1e6, 16.0, 16384, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)),
    ("qwen3_yarn", 512, yarn(500.0, 4.0, 64, attention_factor=1.25)),
    ("qwen3_yarn", 512, yarn(500.0, 4.0, 8)),
    ("qwen3_yarn", 512, {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
    ("qwen3_yarn", 512, {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}),
    ("phi4mini", 512, longrope()),
    ("phi4mini", 64, longrope()),
    ("phi4mini", 512, longrope(attention_factor=1.1)),
    ("phi4mini", 512, longrope(factor=4.0)),
]


def golden(family, length, parameters):
    kind = {"qwen3_yarn": hf.Qwen3Config, "phi4mini": hf.Phi3Config}[family]
    heads = dict(hidden_size=32, num_attention_heads=2, head_dim=16, max_position_embeddings=512)
    more = dict(original_max_position_embeddings=64) if family == "phi4mini" else {}
    config = kind(**heads, **more, rope_parameters=dict(parameters))
    if parameters["rope_type"] == "linear":
        frequencies, magnitude = ROPE_INIT_FUNCTIONS["linear"](config)
    else:
        frequencies, magnitude = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=length)
    return dict(family=family, max_model_len=length, rope_parameters=parameters, frequencies=frequencies.tolist(), magnitude=magnitude)


if __name__ == "__main__":
    text = ",\n".join(json.dumps(golden(*case)) for case in CASES)
    (HERE / "ropes.json").write_text(f"[{text}]\n")
