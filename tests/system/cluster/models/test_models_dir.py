"""A directory of GGUF files is enough: each is a model that its first request loads."""
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request

import pytest
from harness import CLUSTER, MODEL, free_port, running
from machines import two_machines
from test_models_on_demand import ask, shards, wait_for

SETTINGS = 'kv_cache_bytes = "64MiB"\nmax_model_len = 1024\n'


def fill(directory, *names):
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).symlink_to(MODEL)
    return directory


def table(directory, more=""):
    return f'[[models]]\nmodels_dir = "{directory}"\n{SETTINGS}{more}\n'


def served(cluster):
    with urllib.request.urlopen(cluster.url + "/v1/models", timeout=5) as answer:
        return [m["id"] for m in json.load(answer)["data"]]


def test_each_file_is_a_model_and_the_others_say_why_not(tmp_path):
    models = fill(tmp_path / "models", "one.gguf", "two.Q4_1.gguf", "mmproj-one.gguf")
    (models / "broken.gguf").write_bytes(b"GGUF, but not more")
    (models / "half-00001-of-00002.gguf").write_bytes(b"GGUF")
    fill(models / "folder", "inside.gguf")
    reasons = {"mmproj-one.gguf": "mmproj", "broken.gguf": "broken.gguf", "half-00001-of-00002.gguf": "part 2 of 2 is missing"}
    with running(devices=("cpu:0",), models=table(models), cluster="max_loaded_models = 1") as c:
        assert served(c) == ["folder", "one", "two.Q4_1"]
        assert shards(c) == set()
        texts = {ask(c, name) for name in ("one", "two.Q4_1", "folder")}
        assert len(texts) == 1 and texts.pop()[0] == 200
        log = c.log("root")
        for file, reason in reasons.items():
            line = next(line for line in log.splitlines() if f"{file} is not served: " in line)
            assert reason in line.split("is not served: ")[1]
        assert log.count("is not served") == len(reasons)
    (tmp_path / "nodes.toml").write_text(table(models))
    planned = subprocess.run([CLUSTER, "plan", tmp_path / "nodes.toml"], capture_output=True, text=True, timeout=60)
    assert planned.returncode == 0, planned.stderr
    for file, reason in reasons.items():
        assert any(file in line and reason in line for line in planned.stderr.splitlines() if line.startswith("warning: ")), planned.stderr
    planned = subprocess.run([CLUSTER, "plan", tmp_path / "nodes.toml", "--json"], capture_output=True, text=True, timeout=60)
    assert {os.path.basename(p["path"]) for p in json.loads(planned.stdout)["passed_over"]} == set(reasons)


def test_a_model_of_its_own_table_wins(tmp_path):
    models = fill(tmp_path / "models", "one.gguf", "two.gguf")
    shutil.copy(MODEL, tmp_path / "apart.gguf")
    own = f'[[models]]\nname = "one"\npath = "{tmp_path}/apart.gguf"\nload = "on-demand"\n{SETTINGS}pin = true\n'
    with running(devices=("cpu:0",), models=table(models) + own) as c:
        assert served(c) == ["two", "one"]
        c.wait_standing()
        assert shards(c) == {"shard-1.0"}


def test_a_cluster_keeps_the_models_of_its_start(tmp_path):
    models = fill(tmp_path / "models", "one.gguf", "two.gguf")
    with running(devices=("cpu:0",), models=table(models)) as c:
        expected = ask(c, "one")
        fill(models, "aaa.gguf")
        c.process.kill()
        c.process.wait(10)
        c.start()
        assert served(c) == ["one", "two"]
        assert ask(c, "one") == expected
        formers = [(name, c.pid(name)) for name in ("gateway", "head-1")]
        for name, _ in formers:
            c.kill(name)
        c.wait_standing(*formers)
        assert served(c) == ["one", "two"]
        assert ask(c, "two") == expected
        c.stop()
        c.start()
        assert served(c) == ["aaa", "one", "two"]
        assert ask(c, "aaa") == expected


def test_a_mistake_names_its_key(tmp_path):
    (tmp_path / "empty").mkdir()
    fill(tmp_path / "bad").joinpath("broken.gguf").write_bytes(b"no model at all")
    for directory, words in (("empty", "holds no model"), ("bad", "no model there can be served"), ("gone", "No such file")):
        (tmp_path / "nodes.toml").write_text(table(tmp_path / directory).replace("[[models]]", "[model]"))
        done = subprocess.run([CLUSTER, "up", tmp_path / "nodes.toml"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 78, done
        assert "model.models_dir" in done.stderr and words in done.stderr and directory in done.stderr, done.stderr


def test_cluster_up_serves_a_directory(tmp_path):
    """With the default ports, which another test may use: in a network of its own."""
    models = fill(tmp_path / "models", "one.gguf", "two.gguf")
    done = subprocess.run([CLUSTER, "run", models], capture_output=True, text=True, timeout=60)
    assert done.returncode == 78 and "is a directory of models: `cluster up" in done.stderr, done
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace of its own, as in a chroot")
    ask_all = "for m in one two; do curl -s 127.0.0.1:8000/v1/completions -d '{\"prompt\":\"x\",\"max_tokens\":1,\"model\":\"'$m'\"}'; done"
    script = f'ip link set lo up; "$@" & up=$!; until curl -sf 127.0.0.1:8000/health >/dev/null; do kill -0 $up || exit 1; sleep 0.1; done; {ask_all}; kill $up; wait'
    with tempfile.TemporaryDirectory(prefix="baton-") as runtime:  # short: sockets live in it
        done = subprocess.run(["unshare", "-rn", "sh", "-c", script, "sh", CLUSTER, "up", models], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "XDG_RUNTIME_DIR": runtime})
    assert done.stdout.count('"text_completion"') == 2 and all(f'"model":"{name}"' in done.stdout for name in ("one", "two")), done


def test_a_directory_is_the_same_on_another_machine(tmp_path):
    models = fill(tmp_path / "models", "one.gguf", "two.gguf")
    near = f'[[models]]\nname = "near"\npath = "{MODEL}"\nnodes = ["a"]\n{SETTINGS}'
    shutil.copy(MODEL, models / "three.gguf")  # not the file of `near`, as the links are
    with two_machines(models=near + table(models, 'nodes = ["b"]')) as both:
        assert served(both.near) == ["near", "three"]
        expected = ask(both.near, "near")
        assert ask(both.near, "three") == expected
        assert shards(both.near) == {"shard-0", "shard-1.0"}
        assert list((both.far.directory / "run").glob("shard-1.0-g*.pid"))


def test_a_long_context_is_cut_to_what_the_cache_holds(tmp_path):
    models = fill(tmp_path / "models", "one.gguf")
    short = SETTINGS.replace("max_model_len = 1024\n", "").replace("64MiB", "16MiB")
    for more, context in (("", 704), ("max_model_len = 320\n", 320)):
        text = f'[model]\nmodels_dir = "{models}"\n{short}{more}[gateway]\nhttp = "127.0.0.1:{free_port()}"\n'
        (tmp_path / "nodes.toml").write_text(text)
        planned = subprocess.run([CLUSTER, "plan", tmp_path / "nodes.toml", "--json"], capture_output=True, text=True, timeout=60)
        assert planned.returncode == 0, planned.stderr
        assert json.loads(planned.stdout)["max_model_len"] == context
