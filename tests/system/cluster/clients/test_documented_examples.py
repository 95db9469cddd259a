"""TorchServe's examples: a model store, a config.properties and a start line (tests/system/seeds/torchserve/examples). `cluster import`
makes the nodes.toml, and the examples' clients work unchanged. Tests with torch and torchvision use BATON_TORCH_PYTHON, or the tests' own
Python if it has them."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
import zlib

import pytest
import requests
from harness import CLUSTER, ROOT, free_ports
from test_start_lines import SEEDS
from worker_models import SDK, wait_for

sys.path.insert(0, str(ROOT / "sdk" / "python" / "tests"))

from torch_python import environment, python_with_torch  # noqa: E402

EXAMPLES = SEEDS / "torchserve" / "examples"
MAKES_WEIGHTS = """
import sys, torch
class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.stack([x.mean(dim=[1, 2, 3]), x.amax(dim=[1, 2, 3])], dim=1).repeat(1, 3)
torch.jit.script(Rows()).save(sys.argv[1])
"""
NAMES = {str(i): ["n0", f"class {i}"] for i in range(6)}


def write_archive(file, handler, files=(), **about):
    """As torch-model-archiver writes it."""
    reply = {"runtime": "python", "model": {"modelName": file.stem, "modelVersion": "1.0", "handler": handler, **about}}
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("MAR-INF/MANIFEST.json", json.dumps(reply))
        for path in files:
            made.write(path, path.name)


@contextlib.contextmanager
def served(folder, python=sys.executable, **env):
    """-> (what the import says, the three addresses); STORE is folder/store."""
    line = ["torchserve", "--start", "--ncs", "--model-store", folder / "store", "--ts-config", EXAMPLES / "config.properties", "--disable-token-auth", "--enable-model-api"]
    done = subprocess.run([CLUSTER, "import", *map(str, line)], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, toml = free_ports(4), done.stdout
    for i in range(3):
        toml = toml.replace(f"127.0.0.1:{8080 + i}", f"127.0.0.1:{first + i}")
    config, output = folder / "nodes.toml", folder / "up.out"
    config.write_text(f'cluster.run_dir = "{folder}/run"\n' + toml.replace("[gateway]\n", f'[gateway]\nhttp = "127.0.0.1:{first + 3}"\nzmq = ""\n'))
    path = os.pathsep.join([str(pathlib.Path(python).parent), os.environ["PATH"]])
    with open(output, "wb") as out:
        process = subprocess.Popen([CLUSTER, "up", config], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(SDK), **env, "PATH": path})
    try:
        yield done.stderr, [f"http://127.0.0.1:{first + i}" for i in range(3)], lambda: output.read_text() if process.poll() is None else pytest.fail(output.read_text())
    finally:
        subprocess.run([CLUSTER, "down", config, "--patience", "1"], capture_output=True, timeout=60)
        process.wait(30)


def is_ready(management, model, now):
    now()  # fails where it has ended
    with contextlib.suppress(OSError, ValueError):
        reply = requests.get(f"{management}/models/{model}", timeout=10).json()
        return isinstance(reply, list) and any(w["status"] == "READY" for w in reply[0]["workers"])
    return False


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:  # short: sockets live in it
        (pathlib.Path(directory) / "store").mkdir()
        yield pathlib.Path(directory)


def test_inputs_explanations_and_metrics_of_the_examples(folder):
    write_archive(folder / "store" / "seen.mar", "seen.py", [EXAMPLES / "seen.py"])
    with served(folder, TS_METRICS_CONFIG=str(EXAMPLES / "metrics.yaml")) as (answer, (inference, management, metrics), now):
        assert "NOT KNOWN" not in answer and "models: seen 1.0: maxWorkers is left out" in answer
        assert "metrics_config is left out" in answer and "TS_METRICS_CONFIG" in answer
        wait_for(lambda: is_ready(management, "seen", now), 120, now)
        described = requests.get(f"{management}/models/seen", timeout=10).json()[0]
        assert (described["batchSize"], described["maxBatchDelay"], described["responseTimeout"]) == (4, 5000, 120)
        url = f"{inference}/predictions/seen"
        files = {"data": ("clip.mp4", b"\0\1\2\3\r\n--"), "script": "a person walks", "labels": "0 1"}
        assert requests.post(url, files=files, timeout=60).json() == {"data": 8, "script": 14, "labels": 3}
        assert requests.post(url, params={"target": "1"}, data=b"abcd", timeout=60).json() == {"target": 1, "body": 4}
        assert requests.post(url, files={"data": b"ab"}, timeout=60).json() == {"data": 2}
        assert requests.post(f"{inference}/explanations/seen", data=b"a b", timeout=60).json() == {"importances": [{"body": 3}], "words": ["a", "b"]}
        reply = wait_for(lambda: [line for line in requests.get(f"{metrics}/metrics", timeout=60).text.splitlines() if line.startswith(("RequestB", "InferenceR"))])
        assert sorted(line.partition("{")[0] for line in reply) == ["InferenceRequestCount", "RequestBatchSize"] and any('ModelName="seen"' in line for line in reply)


def png(side):
    """A grey picture with three channels."""
    rows = b"".join(b"\0" + bytes([90, 120, 150]) * side for _ in range(side))
    chunk = lambda kind, data: len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")  # noqa: E731
    head = side.to_bytes(4, "big") * 2 + b"\x08\2\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_the_handler_of_images_that_an_archive_names_by_its_kind(folder):
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    if subprocess.run([python, "-c", "import torchvision, PIL"], env=environment(), capture_output=True, timeout=300).returncode:
        pytest.skip("torchvision is nowhere")
    (folder / "make.py").write_text(MAKES_WEIGHTS)  # torch reads the source of the code that it compiles
    subprocess.run([python, folder / "make.py", folder / "rows.pt"], env=environment(), check=True, timeout=300)
    (folder / "index_to_name.json").write_text(json.dumps(NAMES))
    write_archive(folder / "store" / "resnet-18.mar", "image_classifier", [folder / "rows.pt", folder / "index_to_name.json"], serializedFile="rows.pt")
    with served(folder, python, PYTHONPATH=environment()["PYTHONPATH"]) as (_, (inference, management, _), now):
        wait_for(lambda: is_ready(management, "resnet-18", now), 300, now)
        reply = requests.put(f"{inference}/predictions/resnet-18", data=png(300), timeout=120).json()  # curl -T
        assert len(reply) == 5 and set(reply) < {n[-1] for n in NAMES.values()} and abs(sum(reply.values()) - 5 / 6) < 0.2, reply
