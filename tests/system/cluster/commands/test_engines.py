"""Shards whose engine is a library give the same texts: in one stage, beside the native engine, as ranks, and through a kill.

The library is the GPU engine's stage on a device of plain loops (tests/support/plain_device.cpp)."""
import json
import os
import pathlib
import subprocess
import time

import pytest
from harness import BUILD, CLUSTER, ROOT, running
from streams import Stream

PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea")]
TOKENS = 48
PLAIN = "plain/plain"
LATE = "plain/plain-late"  # steps are begun ahead of their time on both, and done as late as can be on this one


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Float weights: an engine of float32 and the native one compute the same but for the order of sums."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    subprocess.run([BUILD / "tests/support/tiny_model", path, "--layers", "4", "--type", "F32"], check=True)
    return path


def texts(cluster, tokens=TOKENS):
    streams = [Stream(cluster, p, max_tokens=tokens) for p in PROMPTS]
    return [s.check().text for s in streams]


def served(tiny, devices, **options):
    return running(path=tiny, devices=devices, kv_cache="8MiB", model='dtype = "float32"' if any("/" in d for d in devices) else "", **options)


@pytest.fixture(scope="module")
def native(tiny):
    with served(tiny, ["cpu:0"]) as cluster:
        yield texts(cluster)


@pytest.mark.parametrize("devices, tensor", [([PLAIN], 1), (["cpu:0", PLAIN], 1), ([PLAIN, "cpu:0"], 1), ([PLAIN, PLAIN], 2), ([LATE], 1), ([LATE, LATE], 1),
                                             (["cpu:0", LATE], 1)])
def test_an_engine_in_a_library_gives_the_same_texts(tiny, native, devices, tensor):
    with served(tiny, devices, tensor=tensor) as cluster:
        assert texts(cluster) == native
        for device in {d for d in devices if "/" in d}:
            assert f"{device.replace('/', ' ')}, float32, float16 KV" in json.dumps(cluster.status())


@pytest.mark.parametrize("device", [PLAIN, LATE])
def test_streams_outlive_a_shard_whose_kv_goes_with_it(tiny, native, device):
    with served(tiny, ["cpu:0", device]) as cluster:
        streams = [Stream(cluster, p, max_tokens=TOKENS) for p in PROMPTS]
        for s in streams:
            assert s.begun.wait(60)
        before = cluster.pids()
        at = time.monotonic()
        cluster.kill("shard-1")
        assert [s.check().text for s in streams] == native
        assert time.monotonic() - at < 30
        cluster.wait_standing(("shard-1", before["shard-1"]))  # streams may end before its next start
        after = cluster.pids()
        assert {name for name in after if after[name] != before[name]} == {"shard-1"}


TRAPPING = "plain/plain-trapping"
LONG = 150  # tokens: streams that run when the kernel traps


@pytest.mark.parametrize("devices, tensor", [(["cpu:0", TRAPPING], 1), ([TRAPPING, TRAPPING], 2)])
def test_a_shard_that_loses_its_device_ends_and_streams_go_on(tiny, tmp_path, monkeypatch, devices, tensor):
    """A kernel that traps: the process cannot use its device any more, and must not answer for it."""
    trap = tmp_path / "trap"
    monkeypatch.setenv("BATON_PLAIN_TRAP", str(trap))
    with served(tiny, devices, tensor=tensor) as cluster:
        undisturbed = texts(cluster, LONG)
        before = cluster.pids()
        streams = [Stream(cluster, p, max_tokens=LONG) for p in PROMPTS]
        for s in streams:
            assert s.begun.wait(60)
        trap.write_text("now")
        assert [s.check().text for s in streams] == undisturbed
        assert not trap.exists()
        after = cluster.pids()
        lost = {name for name in after if after[name] != before[name]}
        assert len(lost) == 1 and lost < {"shard-0", "shard-1"}, lost
        assert "the device is lost: an illegal memory access" in cluster.log(*lost)
        assert "status 71" in cluster.log("agent-a")
        cluster.wait_ready()
        assert texts(cluster, LONG) == undisturbed


@pytest.mark.parametrize("form", ["fp8", "int4"])
def test_packed_weights_are_served_recorded_and_not(tiny, form):
    answer = []
    for more in ("", "\nenforce_eager = true"):
        model = f'dtype = "float32"\nkv_cache_dtype = "f32"\nquantization = "{form}"\nquantization_group_size = 32{more}'
        with running(path=tiny, devices=[PLAIN], kv_cache="8MiB", model=model) as cluster:
            answer.append(texts(cluster))
            assert f"plain plain, float32, float32 KV, {form} weights" in json.dumps(cluster.status())
    assert answer[0] == answer[1] and all(answer[0])


TORCH = pathlib.Path(os.environ.get("BATON_ENGINES", BUILD / "cluster/engines")) / "engine_torch.so"


@pytest.mark.skipif(not TORCH.exists(), reason="engine_torch.so is not in this build: ./check gpu")
@pytest.mark.parametrize("devices", [["cpu-torch"], ["cpu:0", "cpu-torch"]])
def test_the_default_model_on_torch_says_what_the_native_engine_says(devices):
    body = {"prompt": "The sea is", "max_tokens": 24, "temperature": 0, "model": "smollm2"}
    answer = []
    for served_by in (["cpu:0"], devices):
        with running(devices=served_by) as cluster:
            answer.append(cluster.post("/v1/completions", body)[2]["choices"][0]["text"])
    assert answer[0] == answer[1] and len(answer[0]) > 40


def refused(config, *words):
    done = subprocess.run([CLUSTER, *words, config], capture_output=True, text=True, timeout=60, cwd=ROOT)
    return done.stdout + done.stderr


def test_devices_that_are_not_there_are_named(tiny, tmp_path):
    config = tmp_path / "nodes.toml"
    base = f'[model]\nname = "m"\npath = "{tiny}"\nkv_cache_bytes = "8MiB"\n'
    config.write_text(base + '[[nodes]]\nname = "a"\ndevices = ["gone/x"]\n')
    assert "engine_gone.so is not in" in refused(config, "doctor")
    answer = refused(config, "up")  # before anything starts
    assert "error: device gone/x: engine_gone.so is not in" in answer and "docs/develop/engines.md" in answer
    config.write_text(base + f'[[nodes]]\nname = "a"\ndevices = ["plain/other"]\n')
    assert "there is no device other, only plain" in refused(config, "doctor")
    assert "there is no device other, only plain" in refused(config, "up")
    assert "there is no device other, only plain" in refused("plain/other", "doctor", "--device")
    ranks = 'tensor_parallel_size = 2\n[[nodes]]\nname = "a"\ndevices = ["plain/plain-alone", "plain/plain-alone"]\n'
    config.write_text(base + ranks)
    assert "several ranks need what this machine has not" in refused(config, "doctor")
    assert "several ranks need what this machine has not" in refused(config, "up")
    config.write_text(base + ranks.replace("plain-alone", "plain-apart"))  # it refuses a second rank on one device
    assert "2 ranks of a stage are on one device" in refused(config, "doctor")
    assert "error: device plain/plain-apart: engine plain: 2 ranks of a stage are on one device" in refused(config, "up")
    config.write_text(base.replace("8MiB", "auto") + f'[[nodes]]\nname = "a"\ndevices = ["{PLAIN}"]\n')
    assert f"not that of device {PLAIN}: give a size" in refused(config, "plan")
    config.write_text(base + 'kv_cache_dtype = "q8_0"\n' + f'[[nodes]]\nname = "a"\ndevices = ["{PLAIN}"]\n')
    assert "no KV cache of type q8_0" in refused(config, "plan")
    config.write_text(base + 'dtype = "float32"\n[[nodes]]\nname = "a"\ndevices = ["cpu"]\n')
    assert "the native engine computes with the types of the model's file" in refused(config, "plan")
    config.write_text(base + 'quantization = "fp8"\n[[nodes]]\nname = "a"\ndevices = ["cpu"]\n')
    assert 'model.quantization is "fp8", but the native engine' in refused(config, "plan")
    config.write_text(base + 'quantization = "awq"\n' + f'[[nodes]]\nname = "a"\ndevices = ["{PLAIN}"]\n')
    assert "model.quantization 'awq' must be none, fp8 or int4" in refused(config, "plan")
    config.write_text(base + f'tensor_parallel_size = 2\n[[nodes]]\nname = "a"\ndevices = ["cpu", "{PLAIN}"]\n')
    assert "ranks of one stage need one kind of engine" in refused(config, "plan")
