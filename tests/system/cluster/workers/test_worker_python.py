"""The cluster and its doctor name what a Python lacks for workers. Also the C++ SDK's examples, built as the documents say."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from harness import BUILD, CLUSTER, ROOT, running
from test_without_llm import WorkersAlone
from test_workers import PLAY, table, wait_for

from baton_client import Client

SDK = ROOT / "sdk" / "python"
BARE = ["env", f"PYTHONPATH={SDK}", sys.executable, "-S"]  # without its packages
LACKS = r"flatbuffers pyzmq are not installed for \S+: pip install sdk/python into its venv, or Debian's python3-flatbuffers python3-zmq"


def bare(name, *words):
    return f'[[workers]]\nname = "{name}"\ncommand = {json.dumps([*BARE, "-m", *map(str, words)])}\n'


def test_doctor_asks_the_pythons_of_the_workers(tmp_path):
    nowhere = '[[workers]]\nname = "nowhere"\ncommand = ["python-of-nobody", "-m", "baton_worker", "x.py"]\n'
    without = f'[[workers]]\nname = "without"\ncommand = {json.dumps([sys.executable, "-S", "-m", "baton_worker", "x.py"])}\n'
    (tmp_path / "nodes.toml").write_text(table("play", PLAY) + bare("onnx", "baton_worker.onnx", "x.onnx") + bare("own", "baton_worker", "x.py") + nowhere + without)
    done = subprocess.run([CLUSTER, "doctor", tmp_path / "nodes.toml", "--json"], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    has = rows[f"env PYTHONPATH={SDK} {sys.executable}"]
    assert has["ok"] and "has what workers need (handlers)" in has["found"]
    lacks = rows[" ".join(BARE)]  # once, for both
    assert not lacks["ok"] and re.match(r"flatbuffers pyzmq numpy onnxruntime are not installed for \S+: pip install 'sdk/python\[numpy,onnx\]'", lacks["found"]), lacks
    assert "No module named baton_worker" in rows[f"{sys.executable} -S"]["found"] and "pip install sdk/python" in rows[f"{sys.executable} -S"]["fix"]
    assert "python-of-nobody" in rows["python-of-nobody"]["found"] and "apt install python3-venv" in rows["python-of-nobody"]["fix"]
    assert done.returncode == 1


def test_doctor_asks_python3_where_no_file_says_which():
    for path, is_well in ((SDK, True), ("", False)):
        found = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": found, "PYTHONPATH": str(path)}
        done = subprocess.run([CLUSTER, "doctor"], capture_output=True, text=True, timeout=120, env=environment)
        (line,) = [line for line in done.stdout.splitlines() if "python3, for workers" in line]
        assert line.startswith("  ok  " if is_well else "  note") and ("has what workers need" in line) == is_well, done.stdout
        assert done.returncode == 0  # an advice, whatever this machine is to run


def test_a_missing_package_of_a_worker_is_in_the_status():
    with running(WorkersAlone, workers=table("play", PLAY) + bare("bare", "baton_worker", PLAY)) as c:
        c.wait_workers("play")  # the others serve
        gone = wait_for(lambda: [p for p in c.status()["processes"] if p["name"] == "worker-bare-0" and re.search(LACKS, p.get("reason") or "")])
        assert gone[0]["phase"] != "ready" and gone[0]["restarts"] == 0  # a restart cannot help


def test_the_build_lines_of_the_examples(tmp_path):
    pages = [ROOT / "docs/apis" / name for name in ("workers/libraries-and-other-languages.md", "zmq.md")]
    lines = [line for page in pages for line in page.read_text().replace("\\\n", " ").splitlines() if line.startswith("g++ ")]
    assert len(lines) == 3
    for line in lines:
        words = [word.replace("build/release", str(BUILD)) for word in shlex.split(line)]
        words[-1] = str(tmp_path / words[-1])
        subprocess.run(words, cwd=ROOT, check=True, timeout=600)
    host = BUILD / "sdk" / "cpp" / "baton_worker_host"
    workers = table("echo", tmp_path / "echo_worker", module=None) + table("sum", host, tmp_path / "libsum_worker.so", module=None)
    with running(WorkersAlone, workers=workers) as c, Client(c.door, timeout=60) as client:
        c.wait_workers("echo")
        c.wait_workers("sum")
        assert b"".join(piece.body for piece in client.infer_stream("echo", body=b"hello there")) == b"hello there"
