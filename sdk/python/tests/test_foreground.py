"""A handler in a terminal: its answers, and where a debugger stops."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SDK = HERE.parent
HANDLER = """
from baton_worker import Handler


class Upper(Handler):
    def inference(self, requests):
        shouted = [request.body.upper() for request in requests]
        PLACE
        return shouted
"""


def foreground(*words, before=("-m", "baton_worker.foreground"), typed="", expected=0):
    done = subprocess.run([sys.executable, *before, *map(str, words)], cwd=SDK, input=typed, capture_output=True, text=True, timeout=120)
    assert done.returncode == expected, done.stdout + done.stderr
    return done


def handler_file(tmp_path, place="pass"):
    file = tmp_path / "upper.py"
    file.write_text(HANDLER.replace("PLACE", place))
    return file


def test_a_body_is_answered(tmp_path):
    assert foreground("--text", "hello", "baton_worker", handler_file(tmp_path)).stdout == "HELLO\n"
    (tmp_path / "asked").write_bytes(b"from a file")
    assert foreground("--body", tmp_path / "asked", "--batch", 2, "baton_worker", handler_file(tmp_path)).stdout == "1: FROM A FILE\n2: FROM A FILE\n"


def test_handlers_of_other_servers_are_asked(tmp_path):
    done = foreground("--text", "one two three", "baton_worker.torchserve", HERE / "models" / "ts_class_handler.py")
    assert json.loads(done.stdout)["words"] == 3
    pytest.importorskip("numpy")
    asked = tmp_path / "request.json"
    tensors = [{"name": f"INPUT{n}", "datatype": "FP32", "shape": [4], "data": [[n, 1], [2, 3]]} for n in (0, 1)]
    asked.write_text(json.dumps({"inputs": tensors, "outputs": [{"name": "OUTPUT0"}]}))
    model = ["baton_worker.triton", HERE / "models" / "triton_model.py", "--config", HERE / "models" / "config.pbtxt"]
    reply = json.loads(foreground("--inputs", asked, *model).stdout)
    assert reply == {"outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": [4], "data": [1.0, 2.0, 4.0, 6.0]}]}
    asked.write_text(json.dumps({"inputs": tensors[:1]}))
    assert "INPUT1 is missing" in foreground("--inputs", asked, *model, expected=1).stdout


def test_a_breakpoint_stops_in_the_terminal(tmp_path):
    done = foreground("--text", "hi", "baton_worker", handler_file(tmp_path, "breakpoint()"), typed="p shouted[0] * 2\nc\n")
    assert "(Pdb) b'HIHI'" in done.stdout and done.stdout.endswith("HI\n")


def test_pdb_stops_at_its_breakpoint(tmp_path):
    file = handler_file(tmp_path)
    line = file.read_text().splitlines().index("        pass") + 1
    typed = f"b {file}:{line}\nc\np len(shouted), requests[0].content_type\nc\nq\n"
    done = foreground("--text", "hi", "baton_worker", file, before=("-m", "pdb", "-m", "baton_worker.foreground"), typed=typed)
    assert "Breakpoint 1 at" in done.stdout and "(1, 'text/plain')" in done.stdout and "\nHI\n" in done.stdout.replace("(Pdb) ", "\n")


def test_pdb_stops_where_a_handler_raises(tmp_path):
    file = handler_file(tmp_path, "shouted[7]")
    done = foreground("--pdb", "--text", "hi", "baton_worker", file, typed="p len(shouted)\nq\n", expected=1)
    assert "(Pdb) 1" in done.stdout and "handler_failed: IndexError" in done.stdout
    assert "handler_failed: IndexError" in foreground("--text", "hi", "baton_worker", file, expected=1).stdout  # without it, the client's error


@pytest.mark.parametrize(
    "text, why",
    [
        ("[", "is no request of tensors: JSONDecodeError"),
        ("{}", "KeyError: 'inputs'"),
        ('{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1]}]}', "input 'x' has 1 values, and its shape 2"),
        ('{"inputs": [{"name": "x", "datatype": "BF16", "shape": [1], "data": [1]}]}', "BF16 has no JSON"),
        ('{"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1], "data": [300]}]}', "error: "),
    ],
)
def test_an_invalid_request_is_rejected(tmp_path, text, why):
    (tmp_path / "request.json").write_text(text)
    assert why in foreground("--inputs", tmp_path / "request.json", "baton_worker", handler_file(tmp_path), expected=2).stderr


def test_an_unknown_entry_point_is_rejected(tmp_path):
    assert "invalid choice: 'nothing'" in foreground("nothing", "x.py", expected=2).stderr
    assert "--batch is 1 to" in foreground("--batch", 0, "baton_worker", "x.py", expected=2).stderr
    assert "there.txt" in foreground("--body", tmp_path / "there.txt", "baton_worker", "x.py", expected=2).stderr
