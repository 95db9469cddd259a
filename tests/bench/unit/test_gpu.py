"""gpu.py on a device of plain loops: it writes a valid model and measures its rows."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import load as loads  # noqa: E402
import servers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()


def test_a_model_is_written_alone(tmp_path):
    subprocess.run([sys.executable, ROOT / "tests/bench/gpu.py", "--shape", "tiny", "--write", tmp_path / "m"], check=True, timeout=60)
    inspected = subprocess.run([BUILD / "cluster/cluster", "model", "inspect", tmp_path / "m", "--json"], capture_output=True, text=True, timeout=60)
    found = json.loads(inspected.stdout)
    assert found["architecture"] == "llama", found


def test_the_model_that_is_written_can_be_served(tmp_path):
    subprocess.run([sys.executable, ROOT / "tests/bench/gpu.py", "--shape", "tiny", "--write", tmp_path / "m"], check=True, timeout=60)
    with servers.Cluster(BUILD / "cluster/cluster", tmp_path / "m", ["plain/plain"]) as server:
        streams, _ = loads.drive(loads.Load(server.url, 2, 2, max_tokens=20, model="bench", warmup=0))
    assert [fault for s in streams for fault in loads.faults_of(s, 20)] == []
    assert all(s.usage["completion_tokens"] == 20 for s in streams)


def test_the_tiny_shape_is_measured():
    done = subprocess.run([sys.executable, ROOT / "tests/bench/gpu.py", "--engine", "plain", "--device", "plain", "--shape", "tiny",
                           "--build-dir", BUILD, "--python", "/bin/false"], capture_output=True, text=True, timeout=120)
    rows = {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 2, done.stderr  # what the device can do needs torch
    assert {"load", "decode batch 1", "decode batch 4", "prefill 64"} <= set(rows)
    assert 0 < rows["decode batch 4 with its prompts"]["value"] < rows["decode batch 4"]["value"]
    assert all(rows[name]["value"] > 0 for name in ("decode batch 1", "decode batch 4", "prefill 64"))
    # Layers, norms and head. The embedding does not count, because a step reads only one row of it.
    assert rows["weights read by a step"]["value"] == 2 * (2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 128 * 64 + 2 * 64) + 64 + 320 * 64)


def rows_of(*words, code):
    done = subprocess.run([sys.executable, ROOT / "tests/bench/gpu.py", "--engine", "plain", "--device", "plain", "--shape", "tiny",
                           "--build-dir", BUILD, "--python", "/bin/false", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_packed_weights_are_measured_by_what_a_step_reads_of_them():
    layers = 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 128 * 64 + 2 * 64) + 64
    assert rows_of("--quantization", "fp8", code=2)["weights read by a step"]["value"] == 2 * 320 * 64 + layers
    assert rows_of("--quantization", "int4", "--group", "32", code=2)["weights read by a step"]["value"] == 2 * 320 * 64 + layers * (0.5 + 4 / 32)


def test_attention_and_the_host_have_rows_of_their_own():
    assert "attention of a step" in rows_of("--only", "attention", code=2)
    rows = rows_of("--only", "host", "--batch", "3", "--device", "plain-late", code=0)
    host = rows["host time per step of batch 3"]
    assert 0 < host["value"] < rows["step that has nothing to compute"]["value"] and "bar" not in host  # a bar of GPUs
