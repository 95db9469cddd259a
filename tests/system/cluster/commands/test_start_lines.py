"""Lines and files that start other servers, as their documentation shows them (tests/system/seeds): `cluster import` makes a nodes.toml of each that this machine can run. Put in their
place are paths: MODEL is the model's file, FILE its name and DIRECTORY where it lies, STORE a model store, REPOSITORY a model repository."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import time
import tomllib
import urllib.request
import zipfile

import pytest
from harness import CLUSTER, MODEL, ROOT, START_SECONDS_MAX, free_port

SEEDS = ROOT / "tests" / "system" / "seeds"
LINES = [(path.parent.name, line) for path in sorted(SEEDS.glob("*/lines.txt")) for line in path.read_text().splitlines()]
COMPOSE = sorted(SEEDS.glob("*/compose.yaml"))
HANDLER = "from ts.torch_handler.base_handler import BaseHandler\n\n\nclass Shout(BaseHandler):\n    def handle(self, data, context):\n        return [str(row['body']).upper() for row in data]\n"


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:  # short: sockets live in it
        yield pathlib.Path(directory)


def write_stores(folder):
    """-> the paths for STORE, PROPERTIES and REPOSITORY"""
    store, add = folder / "store", folder / "repository" / "add_sub"
    store.mkdir()
    (add / "1").mkdir(parents=True)
    with zipfile.ZipFile(store / "shout.mar", "w") as made:
        made.writestr("MAR-INF/MANIFEST.json", json.dumps({"runtime": "python", "model": {"modelName": "shout", "modelVersion": "1.0", "handler": "handler.py"}}))
        made.writestr("handler.py", HANDLER)
    (folder / "ts.properties").write_text("inference_address=http://0.0.0.0:8080\nnumber_of_netty_threads=32\ninstall_py_dep_per_model=false\n")
    (add / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: 8\n')
    (add / "1" / "model.py").write_text("class TritonPythonModel:\n    pass\n")
    return {"STORE": store, "PROPERTIES": folder / "ts.properties", "REPOSITORY": folder / "repository"}


def imported(words, env=None):
    done = subprocess.run([CLUSTER, "import", *map(str, words)], capture_output=True, text=True, timeout=60, cwd=ROOT, env={**os.environ, **(env or {})})
    assert done.returncode == 0, done.stderr
    return done


def planned(toml, folder):
    config = folder / "nodes.toml"
    config.write_text(f'cluster.run_dir = "{folder}/run"\n' + toml)
    done = subprocess.run([CLUSTER, "plan", config, "--json"], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not (folder / "run").exists()  # a dry run leaves nothing
    return done


def words_of(line, folder):
    places = {"DIRECTORY": pathlib.Path(MODEL).resolve().parent, "FILE": pathlib.Path(MODEL).resolve().name, "MODEL": MODEL, **write_stores(folder)}
    return shlex.split(re.sub(r"\b(?:%s)\b" % "|".join(places), lambda m: str(places[m[0]]), line))


@pytest.mark.parametrize("system, line", LINES, ids=[f"{s}-{n}" for n, (s, _) in enumerate(LINES)])
def test_start_lines_in_files_and_containers_come_up(system, line, folder):
    done = imported(words_of(line, folder))
    assert "NOT KNOWN" not in done.stderr and "REFUSES" not in done.stderr, done.stderr
    made = tomllib.loads(done.stdout)
    if system == "torchserve" and "model_id" not in line:  # the launcher of an LLM has no store
        assert pathlib.Path(made["model_store"]["path"]) == folder / "store"
    elif system == "triton":
        assert made["model_repository"]["path"] == str(folder / "repository")
    else:
        assert pathlib.Path(made["model"]["path"]).samefile(MODEL)
    assert made["gateway"].get("allow_unauthenticated") or not re.search(r'"0\.0\.0\.0:\d+"', done.stdout), done.stdout
    planned(done.stdout, folder)


@pytest.mark.parametrize("file", COMPOSE, ids=[f.parent.name for f in COMPOSE])
def test_compose_files_come_up(file, folder):
    (folder / "models").symlink_to(pathlib.Path(MODEL).resolve().parent)
    (folder / "compose.yaml").write_text(file.read_text().replace("FILE", pathlib.Path(MODEL).resolve().name))
    done = imported([folder / "compose.yaml"], {"VLLM_PORT": "9123"})
    made = tomllib.loads(done.stdout)
    assert pathlib.Path(made["model"]["path"]).samefile(MODEL)
    assert made["gateway"]["http"] == {"vllm": "0.0.0.0:9123", "llama.cpp": "0.0.0.0:8080"}[file.parent.name]
    planned(done.stdout, folder)


def test_a_line_of_a_container_serves(folder):
    line = next(line for system, line in LINES if system == "vllm" and line.startswith("docker"))
    port = free_port()
    toml = imported(words_of(line.replace("-p 8000:8000", f"-p 127.0.0.1:{port}:8000"), folder)).stdout
    config, output = folder / "nodes.toml", folder / "up.out"
    config.write_text(f'cluster.run_dir = "{folder}/run"\n' + toml.replace("[gateway]\n", '[gateway]\nzmq = ""\n'))
    with open(output, "wb") as out:
        process = subprocess.Popen([CLUSTER, "up", config], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            assert process.poll() is None and time.monotonic() < deadline, output.read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.05)
        body = {"model": f"/models/{pathlib.Path(MODEL).resolve().name}", "prompt": "The sky is", "max_tokens": 4}
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["choices"][0]["text"]
    finally:
        subprocess.run([CLUSTER, "down", config, "--patience", "1"], capture_output=True, timeout=60)
        process.wait(30)


def test_what_a_plan_would_refuse_is_mended_and_said():
    long = imported(["vllm", "serve", MODEL, "--max-model-len", "2048", "--kv-cache-memory-bytes", "2000000"])
    assert 'kv_cache_bytes = "auto"' in long.stdout and "model.kv_cache_bytes" in long.stderr
    wide = imported(["vllm", "serve", MODEL, "--tensor-parallel-size", "64"])
    assert "tensor_parallel_size" not in tomllib.loads(wide.stdout)["model"] and "note: model.tensor_parallel_size is left out" in wide.stderr
    beyond = imported(["vllm", "serve", MODEL, "--max-model-len", "900k"])
    assert "`cluster plan` REFUSES THIS" in beyond.stderr


def test_a_model_of_the_hubs_cache_is_found(folder):
    at = folder / "hub" / "models--HuggingFaceTB--SmolLM2"
    (at / "refs").mkdir(parents=True)
    (at / "refs" / "main").write_text("abc123")
    (at / "snapshots" / "abc123").mkdir(parents=True)
    done = imported(["vllm", "serve", "HuggingFaceTB/SmolLM2"], {"HF_HOME": str(folder)})
    made = tomllib.loads(done.stdout)["model"]
    assert made["path"] == str(at / "snapshots" / "abc123")
    assert made["aliases"] == ["HuggingFaceTB/SmolLM2"]


def test_a_router_of_llama_server_becomes_a_directory_of_models(folder):
    line = ["llama-server", "--models-max", "2", "--sleep-idle-seconds", "60", "--models-dir"]
    (folder / "models").mkdir()
    for name in ("one.gguf", "two.gguf"):
        (folder / "models" / name).symlink_to(MODEL)
    made = imported([*line, folder / "models"])
    config = tomllib.loads(made.stdout)
    assert config["model"] == {"models_dir": str(folder / "models"), "idle_timeout": 60} and config["cluster"] == {"max_loaded_models": 2}
    (folder / "nodes.toml").write_text(made.stdout.replace("[cluster]\n", f'[cluster]\nrun_dir = "{folder}/run"\n'))
    plan = subprocess.run([CLUSTER, "plan", folder / "nodes.toml", "--json"], capture_output=True, text=True, timeout=60)
    assert [p["model"] for p in json.loads(plan.stdout)["pipelines"]] == ["one", "two"], plan
    absent = imported([*line, folder / "absent"])  # it may be on another machine
    assert "REFUSES THIS" in absent.stderr and "model.models_dir" in absent.stderr
    assert tomllib.loads(absent.stdout)["model"]["models_dir"] == str(folder / "absent")
