"""The sections "From ..." of docs/apis, run as written. The other server's command or file gives the section's nodes.toml, which serves, and
every following command gets its answer. So does every snippet at the top of the page ("Try it"). Replaced are the path of the model, the
addresses, and the paths of python3 and curl."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import zipfile

import pytest
from harness import CLUSTER, MODEL, ROOT, START_SECONDS_MAX, free_port

PAGES = {"OpenAI clients": "apis/openai.md", "Anthropic's clients": "apis/anthropic.md", "Ollama": "apis/ollama.md", "vLLM": "apis/vllm.md", "TGI": "apis/tgi.md", "TorchServe": "apis/torchserve.md",
         "TorchServe with handlers": "apis/torchserve.md", "Triton": "apis/triton.md"}
SNIPPETS = "Try it"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# Put before each command block.
SHELL = 'set -euo pipefail\ncurl() {{ command curl -sS --fail-with-body --max-time 60 "$@"; echo; }}\npython3() {{ {python} "$@"; }}\n'


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:  # short: sockets live in it
        yield pathlib.Path(directory)


def section(text, title):
    return re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)[1]


def page(system):
    """-> (the section's text, the nodes.toml in it, the commands of the section, else those at the top of the page, the programs there)"""
    text = (ROOT / "docs" / PAGES[system]).read_text()
    own = section(text, f"From {system}")
    blocks = BLOCK.findall(own)
    tables = [body for kind, body in blocks if kind == "toml"]
    commands, programs = [body for kind, body in blocks if not kind], []
    if not commands:
        snippets = BLOCK.findall(section(text, SNIPPETS))
        commands, programs = [[body for kind, body in snippets if kind == wanted] for wanted in ("", "python")]
        assert len(programs) == 1, system
    assert len(tables) == len(commands) == 1, system
    return own, tomllib.loads(tables[0]), commands[0], programs


def imported(system, text, folder):
    """The output of `cluster import` for the command or file at the beginning of the page; None: the page has neither."""
    if system in ("OpenAI clients", "Anthropic's clients", "Ollama"):
        return None
    if system == "Triton":
        at = folder / "repo" / "vllm_model" / "1"
        at.mkdir(parents=True)
        (at / "model.json").write_text(block_of(text, "json"))
        (folder / "repo" / "vllm_model" / "config.pbtxt").write_text(block_of(text, "pbtxt"))
        words = [folder / "repo"]
    elif system == "TorchServe with handlers":
        (folder / "config.properties").write_text(block_of(text, "properties"))
        words = [folder / "config.properties", "--model", "/models/smollm2"]
    elif system == "TorchServe":
        (folder / "model-config.yaml").write_text(block_of(text, "yaml"))
        words = [folder / "model-config.yaml", "--model", "/models/smollm2"]
    else:
        words = shlex.split(block_of(text, "sh").replace("\\\n", " "))
        assert words[:2] == ["cluster", "import"]
        words = words[2:]
    done = subprocess.run([CLUSTER, "import", *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return tomllib.loads(done.stdout)


def block_of(text, kind):
    return next(body for k, body in BLOCK.findall(text) if k == kind)


def write_store(text, folder):
    """The archive that the page shows, as torch-model-archiver packs it."""
    about = {"modelName": "shout", "modelVersion": "1.0", "handler": "handler.py", "configFile": "model-config.yaml"}
    with zipfile.ZipFile(folder / "shout.mar", "w") as made:
        made.writestr("MAR-INF/MANIFEST.json", json.dumps({"runtime": "python", "model": about}))
        made.writestr("handler.py", block_of(text, "python"))
        made.writestr("model-config.yaml", block_of(text, "yaml"))


def with_free_ports(tables):
    """-> old port -> new port"""
    found = {}
    for key, value in tables["gateway"].items():
        if isinstance(value, str) and re.fullmatch(r"[\d.]+:\d+", value):
            host, old = value.rsplit(":", 1)
            found[old] = str(free_port())
            tables["gateway"][key] = f"{host}:{found[old]}"
    return found


def as_toml(tables):
    return "\n".join(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items()) for name, table in tables.items())


def with_sdk():
    """The python3 that workers run finds the SDK."""
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "sdk" / "python")}


def wait_ready(process, port, output):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, output.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"not ready after {START_SECONDS_MAX} s: {output.read_text()}")


@pytest.mark.parametrize("system", PAGES)
def test_the_page_of_each_system_is_true(system, folder):
    text, tables, commands, programs = page(system)
    made = imported(system, text, folder)
    if made is not None:
        made.get("gateway", {}).pop("zmq", None)
        made.pop("nodes", None)  # of this machine
        made["model"] = {k: v for k, v in made["model"].items() if (k, v) not in (("pipeline_parallel_size", 1), ("tensor_parallel_size", 1))}
        assert made == tables
    ports = with_free_ports(tables)
    tables["model"]["path"] = str(MODEL)
    tables["gateway"].setdefault("http", f"127.0.0.1:{free_port()}")
    tables["gateway"]["zmq"] = ""
    if "model_store" in tables:
        write_store(text, folder)
        tables["model_store"]["path"] = str(folder)
    tables["cluster"] = {"run_dir": str(folder / "run")}
    config, output = folder / "nodes.toml", folder / "up.out"
    config.write_text(as_toml(tables))
    for old, new in ports.items():
        commands, *programs = [body.replace(f"localhost:{old}", f"localhost:{new}") for body in (commands, *programs)]
    with open(output, "wb") as out:
        process = subprocess.Popen([CLUSTER, "up", config], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=with_sdk())
    try:
        wait_ready(process, tables["gateway"]["http"].rsplit(":", 1)[1], output)
        for line in re.split(r"\n(?=curl |\w+=\S+ .*python3 |python3 )", commands.strip()):
            done = subprocess.run(["bash", "-c", SHELL.format(python=sys.executable) + line], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "NO_PROXY": "localhost,127.0.0.1"})
            assert done.returncode == 0 and done.stdout.strip(), (line, done.stdout, done.stderr)
        for program in programs:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env={**os.environ, "NO_PROXY": "localhost,127.0.0.1"})
            assert done.returncode == 0 and done.stdout.strip(), (program, done.stdout, done.stderr)
    finally:
        subprocess.run([CLUSTER, "down", config, "--patience", "1"], capture_output=True, timeout=60)
        process.wait(30)
