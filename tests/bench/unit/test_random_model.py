"""Random models of real shapes: the product reads them, and their tensors have the requested types."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLUSTER = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve() / "cluster/cluster"
sys.path.insert(0, str(ROOT / "tests/bench"))

import random_model  # noqa: E402


@pytest.mark.parametrize("kind", random_model.FILE_TYPES)
def test_a_model_of_each_type_runs(kind, tmp_path):
    file = tmp_path / "random.gguf"
    random_model.write_model(file, "tiny", kind)
    done = subprocess.run([CLUSTER, "model", "inspect", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "random.gguf: runs" in done.stdout, done.stdout + done.stderr
    assert f", {kind}\n" in done.stdout and random_model.BASE.get(kind, kind) in done.stdout.split("tensors")[1]


def test_rows_that_are_no_multiple_of_256_have_the_types_of_llama_quantize():
    types = {name: kind for name, _, kind in random_model.tensors_of("0.5b", "Q4_K_M")}
    assert types["blk.5.attn_q.weight"] == "Q5_0" and types["token_embd.weight"] == "Q8_0"  # rows of 896
    assert types["blk.0.ffn_down.weight"] == "Q6_K" and types["blk.4.ffn_down.weight"] == "Q4_K"  # rows of 4,864
