"""A model directory as saved by transformers is inspected and served, and answers as transformers does
(tests/data/model/make_checkpoint_golden.py). So are directories quantised by GPTQ, one of them a mixture of experts in two stages
(make_gptq_goldens.py), and directories of FP8 and AWQ (make_quantised_goldens.py)."""
import json
import shutil
import subprocess

import pytest
from harness import CLUSTER, ROOT, running

DIRECTORY = ROOT / "tests/data/model/checkpoint"
FAMILIES = ROOT / "tests/data/model/families"
GOLDEN = json.loads((ROOT / "tests/data/model/checkpoint.json").read_text())


@pytest.fixture(scope="module")
def served():
    with running(path=DIRECTORY) as cluster:
        yield cluster


def inspect(path, *words):
    return subprocess.run([CLUSTER, "model", "inspect", path, *words], capture_output=True, text=True, timeout=60, cwd=ROOT)


def with_tokenizer(family, directory):
    """A family's directory with the tokenizer whose vocabulary it has."""
    shutil.copytree(FAMILIES / family, directory)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(DIRECTORY / name, directory / name)
    return directory


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    return with_tokenizer("gptq_qwen2", tmp_path_factory.mktemp("model") / "quantised")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return with_tokenizer("gptq_qwen3moe", tmp_path_factory.mktemp("model") / "mixture")


def check_chat(served, golden):
    messages = [{"role": "user", "content": golden["prompt"]}]
    status, _, reply = served.post("/tokenize", {"messages": messages})
    assert status == 200 and reply["tokens"] == golden["prompt_ids"]
    status, _, answer = served.post(
        "/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": len(golden["ids"])})
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == golden["text"]
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == len(golden["prompt_ids"])


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["prompt"])
def test_a_chat_is_answered_as_by_transformers(served, golden):
    check_chat(served, golden)


def check_family(family, directory):
    golden = json.loads((FAMILIES / f"{family}.json").read_text())
    with running(path=directory) as cluster:
        check_chat(cluster, golden | {"ids": golden["greedy_ids"]})


def test_a_chat_with_quantised_weights_is_answered_as_by_transformers(quantised):
    check_family("gptq_qwen2", quantised)


@pytest.mark.parametrize("family, file_type, kind", [("fp8_qwen2", "FP8, blocks of 16x32", "BF16"), ("awq_qwen2", "AWQ 4-bit, group 64", "Q5_0")])
def test_a_chat_with_published_formats_is_answered_as_by_transformers(family, file_type, kind, tmp_path):
    directory = with_tokenizer(family, tmp_path / "model")
    reply = json.loads(inspect(directory, "--json").stdout)
    assert reply["runs"] and reply["model"]["file_type"] == file_type
    assert kind in reply["tensors"]
    check_family(family, directory)


def test_a_chat_with_a_mixture_is_answered_as_by_transformers(mixture):
    check_family("gptq_qwen3moe", mixture)


def test_inspect_says_which_experts_a_directory_holds(mixture):
    out = inspect(mixture)
    assert out.returncode == 0, out
    assert "safetensors, qwen3moe" in out.stdout and "4 a layer, of width 32; a token uses 2" in out.stdout
    config = json.loads((mixture / "config.json").read_text())
    copy = shutil.copytree(mixture, mixture.parent / "sparse")
    (copy / "config.json").write_text(json.dumps(config | {"mlp_only_layers": [1]}))
    out = inspect(copy)
    assert out.returncode == 1 and "'mlp_only_layers' is [1]" in out.stderr


def test_inspect_says_how_weights_are_quantised(quantised):
    reply = json.loads(inspect(quantised, "--json").stdout)
    assert reply["runs"] and reply["model"]["file_type"] == "GPTQ 4-bit, group 32"
    config = json.loads((quantised / "config.json").read_text())
    config["quantization_config"]["bits"] = 3
    copy = shutil.copytree(quantised, quantised.parent / "odd")
    (copy / "config.json").write_text(json.dumps(config))
    out = inspect(copy)
    assert out.returncode == 1 and "'bits' of 'quantization_config' is 3" in out.stderr


def test_inspect_says_what_a_directory_holds():
    out = inspect(DIRECTORY)
    assert out.returncode == 0, out
    assert "safetensors, qwen3" in out.stdout and "2 layers" in out.stdout and "with a chat template" in out.stdout
    reply = json.loads(inspect(DIRECTORY, "--json").stdout)
    assert reply["runs"] and reply["form"] == "safetensors" and reply["model"]["file_type"] == "BF16"
    assert reply["tokenizer"]["pre"] == "qwen2" and reply["tokenizer"]["has_chat_template"]


def test_inspect_names_what_does_not_run(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(DIRECTORY, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "awq"}}))
    out = inspect(copy)
    assert out.returncode == 1 and "quantization_config" in out.stderr
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "tokenizer.json").unlink()
    out = inspect(copy)
    assert out.returncode == 1 and "tokenizer.json" in out.stdout
