"""gpu.py on a device of plain loops: the model that it writes is one, and its rows come."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()


def test_a_model_is_written_alone(tmp_path):
    subprocess.run([sys.executable, ROOT / "tests/bench/gpu.py", "--shape", "tiny", "--write", tmp_path / "m"], check=True, timeout=60)
    inspected = subprocess.run([BUILD / "cluster/cluster", "model", "inspect", tmp_path / "m", "--json"], capture_output=True, text=True, timeout=60)
    found = json.loads(inspected.stdout)
    assert found["architecture"] == "llama", found


def test_the_tiny_shape_is_measured():
    done = subprocess.run([sys.executable, ROOT / "tests/bench/gpu.py", "--engine", "plain", "--device", "plain", "--shape", "tiny",
                           "--build-dir", BUILD, "--python", "/bin/false"], capture_output=True, text=True, timeout=120)
    rows = {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 2, done.stderr  # what the device can do needs torch
    assert {"load", "decode batch 1", "decode batch 4", "prefill 64"} <= set(rows)
    assert all(rows[name]["value"] > 0 for name in ("decode batch 1", "decode batch 4", "prefill 64"))
    # Layers, norms and head: not the embedding, of which a step reads a row alone.
    assert rows["weights read by a step"]["value"] == 2 * (2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 128 * 64 + 2 * 64) + 64 + 320 * 64)
