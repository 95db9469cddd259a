"""Runs the command lines of README and docs. Lines that call a server run against one set up as their page describes. Lines of `cluster`
that end by themselves run with values for the words in capitals. test_guides.py runs the pages "From ...";
tests/docs/test_shown_commands.py checks the other lines."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from harness import CLUSTER, MODEL, ROOT, free_port, running

sys.path.insert(0, str(ROOT / "tests/docs"))

import command_lines  # noqa: E402
from test_guides import PAGES, SNIPPETS  # noqa: E402

ALL = command_lines.all_lines()
SHELL = 'set -euo pipefail\ncurl() { command curl -sS --fail-with-body --max-time 60 "$@"; }\n'
RUNS = {"chat", "doctor", "import", "keygen", "model", "plan", "status"}
# Subcommand -> the file that tests it, because it serves until it is stopped or changes a shared cluster.
ELSEWHERE = {"up": "harness.py", "down": "test_faults.py", "join": "machines.py", "drain": "test_nodes.py", "add-node": "test_nodes.py",
             "remove-node": "test_membership.py", "rotate-key": "test_rotate_key.py", "scale": "test_scale.py",
             "run": "test_run.py", "ps": "test_run.py", "logs": "test_run.py", "pull": "test_pull.py", "models": "test_pull.py", "rm": "test_pull.py"}
WITHOUT_END = {"--watch"}
# Parts of the page's text that do not exist here -> the reason.
NOT_RUN = {
    "cluster doctor --device cuda:0 [--ranks N [--ranks-on-device N]]": "there is no such device",
    "cluster plan build/fp8.toml": "written by the line before it; test_gpu_setup.py plans it",
    "cluster import COMMAND...": "docs/apis/move-from-vllm-or-tgi.md has such lines",
    "cluster import tritonserver --model-repository=REPOSITORY ...": "test_start_lines.py imports such lines",
    'cluster chat "Why is the sky blue?"': "which of several clusters it asks is not known here; the tutorials of docs/start have one",
    "cluster status": "the same",
    "cluster status examples/two_machines.toml": "the tutorial's own cluster",
    "cluster keygen /tmp/baton-b.key": "its file would stay",
}


def asks_a_server(line):
    return re.search(r"\bcurl\b.*\w:\d+|OPENAI_BASE_URL|InferenceClient|requests\.", line.text, re.S) is not None


def is_guided(line):
    """test_guides.py runs it."""
    return line.section.startswith("From ") or (line.section == SNIPPETS and line.page in {f"docs/{page}" for page in PAGES.values()})


OF_THINKERS = "docs/apis/reasoning.md"  # test_reasoning.py runs its line: the default model does not think
ASKS = [line for line in ALL if asks_a_server(line) and not is_guided(line) and line.page != OF_THINKERS]
# Pages whose programs ask a server as it is by default; those of test_guides.py run there.
PROGRAMS = [(page, body) for page in ("embeddings.md", "errors-and-retries.md", "responses.md", "websocket.md")
            for kind, body in command_lines.BLOCK.findall((ROOT / "docs/apis" / page).read_text()) if kind == "python"]


def subcommand(text, is_block=False):
    """The subcommand of a `cluster` line; empty for the command's name in a sentence."""
    words = command_lines.commands_of(text)[0]
    if len(words) < 2 or (words[0] != "cluster" and not words[0].endswith("release/cluster/cluster")):
        return ""
    depth = 3 if words[1] == "model" else 2
    return words[1] if is_block or any(not w.startswith("-") for w in words[depth:]) else ""


OWN = {line.text: subcommand(line.text, line.is_block) for line in ALL if subcommand(line.text, line.is_block)}
RUN_HERE = sorted(text for text, name in OWN.items() if name in RUNS and text not in NOT_RUN)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The default model, and the worker model of docs/apis/workers/first.md."""
    page = (ROOT / "docs/apis/workers/first.md").read_text()
    blocks = command_lines.BLOCK.findall(page)
    folder = tmp_path_factory.mktemp("page")
    (folder / "upper.py").write_text(next(body for kind, body in blocks if kind == "python"))
    table = next(body for kind, body in blocks if kind == "toml")
    table = table.replace('"python3"', json.dumps(sys.executable)).replace('"upper.py"', json.dumps(str(folder / "upper.py")))
    path = os.pathsep.join(filter(None, [str(ROOT / "sdk/python"), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with running(nodes=table, model="max_model_len = 768") as cluster:  # an answer without max_tokens ends
            yield cluster


@pytest.fixture
def folder(tmp_path):
    """Writes the files that the lines read."""
    (tmp_path / "model-config.yaml").write_text("minWorkers: 1\n")
    (tmp_path / "config.properties").write_text("inference_address=http://127.0.0.1:8080\n")
    (tmp_path / "handler.py").write_text("")
    (tmp_path / "compose.yaml").write_text(f"services:\n  llm:\n    image: vllm/vllm-openai\n    command: --model {MODEL}\n")
    at = tmp_path / "models/repository/m/1"
    at.mkdir(parents=True)
    (at / "model.json").write_text(json.dumps({"model": "/models/smollm2"}))
    (at.parent / "config.pbtxt").write_text('backend: "vllm"\n')
    (tmp_path / "model.gguf").symlink_to(MODEL)
    (tmp_path / "own.toml").write_text(f'[model]\nname = "smollm2"\npath = "{MODEL}"\n[gateway]\nhttp = "127.0.0.1:{free_port()}"\nzmq = ""\n')
    return tmp_path


def with_values(text, config):
    """The line as a user would type it, with all optional parts except those that never end."""
    words = [w for w in re.sub(r"[\[\]]", "", text).split(" ") if w not in WITHOUT_END]
    values = {"nodes.toml": "own.toml", "CLUSTER": str(config), "NAME": "alice", "FILE": "keys.toml", "PATH": str(MODEL), "MODEL": str(MODEL), "YAML": "model-config.yaml",
              "REPOSITORY": "models/repository", "MESSAGE": "hello", "SERVICE": "llm"}
    if words[1] == "model":
        values["FILE"] = str(MODEL)
    if words[1] == "import":
        values["FILE"] = "config.properties"
    made = " ".join(values.get(w, w) if i == 0 or words[i - 1] != ">" else w for i, w in enumerate(words))
    return made.replace("--handler config.properties", "--handler handler.py")


@pytest.mark.parametrize("text", RUN_HERE)
def test_a_command_of_the_pages_does_what_it_says(text, served, folder):
    script = f"{SHELL}cluster() {{ {CLUSTER} \"$@\"; }}\n{with_values(text, served.config)}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "own")})
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    written = folder / "nodes.toml"
    assert done.stdout.strip() or written.read_text().strip()


@pytest.mark.parametrize("line", ASKS, ids=lambda line: f"{pathlib.Path(line.page).stem}: {line.text[:40]}")
def test_commands_that_call_a_server_are_answered(line, served):
    """Runs the line unchanged except for the port. It calls the shell functions of docs/develop/gpu.md."""
    text = re.sub(r"(?:localhost|127\.0\.0\.1):8000", f"127.0.0.1:{served.http_port}", line.text)
    if function := re.match(r"(\w+)\(\) \{", text):
        text += f"\n{function[1]}"
    done = subprocess.run(["bash", "-c", SHELL + text], capture_output=True, text=True, timeout=120, env={**os.environ, "NO_PROXY": "localhost,127.0.0.1"})
    assert done.returncode == 0 and done.stdout.strip(), (text, done.stdout, done.stderr)
    if "/v1/workers/upper" in text:
        assert done.stdout == "HELLO"


@pytest.mark.parametrize("page, program", PROGRAMS, ids=lambda one: one if one.endswith(".md") else "")
def test_a_program_of_the_pages_gets_its_answer(page, program, served):
    text = program.replace("localhost:8000", f"localhost:{served.http_port}")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, env={**os.environ, "NO_PROXY": "localhost,127.0.0.1"})
    assert done.returncode == 0 and done.stdout.strip(), (text, done.stdout, done.stderr)


def test_no_line_is_left_out():
    assert len(ASKS) >= 4 and len(RUN_HERE) >= 12 and len(PROGRAMS) >= 4
    assert set(OWN.values()) - RUNS - set(ELSEWHERE) == set()
    assert [text for text in NOT_RUN if text not in OWN] == []
    files = {path.name: path for path in (ROOT / "tests/system/cluster").rglob("*.py")}
    missing = [name for name, file in ELSEWHERE.items() if f'"{name}"' not in files[file].read_text()]
    assert missing == []
    guided = {line.section for line in ALL if asks_a_server(line) and is_guided(line)}
    assert {*(f"From {system}" for system in PAGES), SNIPPETS} >= guided
