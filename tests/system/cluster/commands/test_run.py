"""`cluster run`, `ps`, `logs` and `help`: a model without a nodes.toml, in a terminal and in a pipe."""
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request

import pytest
from harness import CLUSTER, MODEL, ROOT, free_ports
from terminal import terminal

NAME = "SmolLM2-135M-Instruct.Q4_1"
OWN = "SmolLM2-135M-In-3b016f44"  # the cluster of this model: others may run on this machine


@contextlib.contextmanager
def started(home, *words):
    """Runs the command beside the test. It has ended afterwards, even if the test fails."""
    with subprocess.Popen([CLUSTER, *map(str, words)], env=home, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path):
    """A separate environment. No cluster of this model may remain in it."""
    with tempfile.TemporaryDirectory(prefix="baton-") as runtime:  # a short path, as sockets need
        where = {**os.environ, "XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
        yield where
        command(where, "down", OWN, "--patience", "1")


def command(home, *words, **more):
    return subprocess.run([CLUSTER, *map(str, words)], capture_output=True, text=True, timeout=120, env=home, cwd=ROOT, **more)


def own_port():
    return "--port", str(free_ports(3))  # the HTTP port, and after it the port for SDKs


def test_a_question_to_a_file_is_answered_and_nothing_is_left(home, tmp_path):
    done = command(home, "run", MODEL, *own_port(), "Name the capital of France.", "--temperature", "0", "--max-tokens", "12")
    assert done.returncode == 0 and "Paris" in done.stdout and done.stdout.count("\n") == 1, done
    assert "/v1" in done.stderr
    assert command(home, "status", OWN).returncode != 0
    assert OWN not in command(home, "ps").stdout


def test_the_context_fits_into_memory_and_a_line_has_the_numbers(home):
    done = command(home, "run", MODEL, *own_port(), "--print-config")
    assert re.search(r"^memory: \d+ MB for weights and \d+ MB for the KV cache, of [0-9.]+ [MG]B available; context of 8192 tokens$", done.stderr, re.M), done
    assert "max_model_len" not in done.stdout
    done = command(home, "run", MODEL, *own_port(), "--max-model-len", "1024", "--print-config")
    assert "context of 1024 tokens, of the model's 8192" in done.stderr and "max_model_len = 1024\n" in done.stdout, done


def test_a_conversation_in_a_terminal(home):
    with terminal(home, "run", MODEL, *own_port(), "--temperature", "0", "--max-tokens", "400") as t:
        t.until("> ")
        saved = f"{home['HOME']}/saved.json"

        def messages():
            t.type(f"/save {saved}\r")
            t.until("messages are in")
            with open(saved) as file:
                return json.load(file)

        for question in ("Hello, my name is Ada.", "What is my name?"):
            t.type(question + "\r")
            t.until(r"tokens/s\)[\s\S]*> ")
        kept = messages()
        assert kept["model"] == NAME and [m["role"] for m in kept["messages"]] == ["user", "assistant"] * 2
        assert kept["messages"][2]["content"] == "What is my name?"
        t.type("/clear\r")
        t.until("forgotten[\\s\\S]*> ")
        t.type("/sve\r")
        t.until("did you mean /save[\\s\\S]*> ")
        t.type("/set max_tokens 3\r")
        t.until("max_tokens is 3[\\s\\S]*> ")
        t.type('"""/one\rtwo"""\r')
        t.until(r"cut after 3 tokens[\s\S]*> ")
        t.type("Grüße ü\x7f\x7f!\r")  # edited: two backspaces
        t.until(r"cut after 3 tokens[\s\S]*> ")
        t.type("/set max_tokens 5000\r")
        t.until("max_tokens is 5000[\\s\\S]*> ")
        t.type("Write a very long story about a fox.\r")
        t.until("the ")
        t.type("\x03")  # ^C
        t.until(r"\(stopped\)[\s\S]*> ")
        t.type("half a line\x03")
        t.until("> ")
        kept = messages()["messages"]
        assert [m["role"] for m in kept] == ["user", "assistant"] * 3 and [kept[0]["content"], kept[2]["content"]] == ["/one\ntwo", "Grüße!"]
        listed = [c for c in json.loads(command(home, "ps", "--json").stdout) if c["name"] == OWN]
        assert [(c["models"], c["phase"]) for c in listed] == [([NAME], "ready")]
        second = command(home, "run", MODEL, "Hello", "--max-tokens", "2")  # talks to the running cluster
        assert second.returncode == 0 and f"{NAME} (cluster SmolLM2-" in second.stderr, second
        t.type("/exit\r")
        assert t.end() == 0
    assert command(home, "status", OWN).returncode != 0
    with open(f"{home['XDG_STATE_HOME']}/baton/chat_history") as file:
        assert "What\\040is\\040my\\040name?" in file.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_conversation_and_the_cluster(home, number):
    with terminal(home, "run", MODEL, *own_port()) as t:
        t.until("> ")
        os.kill(t.pid, number)
        assert t.end() == 0
    assert command(home, "status", OWN).returncode != 0


def test_lines_of_a_pipe_are_questions(home):
    done = command(home, "run", MODEL, *own_port(), "--temperature", "0", "--max-tokens", "8", input="Hello, my name is Ada.\nWhat is my name?\n")
    assert done.returncode == 0 and done.stdout.count("\n") >= 2 and "> " not in done.stdout, done


def test_a_model_alone_is_served(home):
    ports = own_port()
    with started(home, "run", MODEL, "--serve", *ports) as served:
        assert any(line.startswith("ready:") for line in served.stdout)
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/v1/models", timeout=10) as answer:
            assert json.load(answer)["data"][0]["id"] == NAME
        logs = command(home, "logs", "--cluster", OWN, "-n", "3")
        assert {line.split("|")[0].strip() for line in logs.stdout.splitlines()} >= {"gateway", "head"}, logs
        one = command(home, "logs", "--cluster", OWN, "gateway")
        assert one.stdout and "|" not in one.stdout.split(" ")[0]
        assert "it has" in command(home, "logs", "--cluster", OWN, "gatewya").stderr
        served.send_signal(signal.SIGINT)
        assert served.wait(30) == 0


def test_up_takes_a_model_alone(home):
    """Uses the default ports. Another test may use them too, so this one has its own network namespace."""
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace of its own, as in a chroot")
    words = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", CLUSTER, "up", MODEL]
    with subprocess.Popen([*map(str, words)], env=home, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as served:
        try:
            shown = [line for line in served.stdout if line.startswith(("ready:", "error:")) and served.send_signal(signal.SIGINT) is None]
        finally:
            served.kill()
    assert shown == ["ready: http://127.0.0.1:8000    (web page at /, ^C drains and stops)\n"], shown


def test_logs_follow(home):
    with started(home, "run", MODEL, "--serve", *own_port()) as served:
        for line in served.stdout:
            if line.startswith("ready:"):
                break
        with started(home, "logs", "-f", "gateway", "-n", "0", "--cluster", OWN) as logs:
            time.sleep(0.5)
            gateway = next(p["pid"] for p in json.loads(command(home, "status", OWN, "--json").stdout)["processes"] if p["name"] == "gateway")
            os.kill(gateway, signal.SIGKILL)
            assert logs.stdout.readline()  # of the next gateway
            logs.send_signal(signal.SIGINT)
            assert logs.wait(10) == 0
        served.send_signal(signal.SIGTERM)
        assert served.wait(30) == 0


def test_the_config_of_a_run_can_be_kept(home, tmp_path):
    done = command(home, "run", MODEL, "--print-config", "--max-model-len", "1024", "--name", "mine")
    assert done.returncode == 0
    (tmp_path / "kept.toml").write_text(done.stdout)
    assert command(home, "plan", tmp_path / "kept.toml").returncode == 0
    assert 'name = "mine"' in done.stdout and "max_model_len = 1024" in done.stdout


@pytest.mark.parametrize("words, said", [
    (["run", "hf:org/repo"], "not downloaded"),
    (["run", "/nowhere.gguf"], "no such file"),
    (["run", "README.md"], "no GGUF file"),
    (["run", "docs"], "config.json"),
    (["run", str(MODEL), "--name", "a b"], "A-Za-z0-9"),
    (["run", str(MODEL), "--device", "abacus"], "abacus"),
])
def test_a_model_that_cannot_run_is_an_error_at_once(home, words, said):
    done = command(home, *words, "Hello")
    assert done.returncode != 0 and said in done.stderr and not done.stdout, done


def test_help_of_a_command(home):
    assert command(home, "help", "run").stdout == command(home, "run", "--help").stdout
    assert command(home, "help").stdout == command(home, "--help").stdout
    done = command(home, "help", "statsu")
    assert done.returncode != 0 and "did you mean 'status'" in done.stderr, done
