"""The command line as a newcomer meets it."""
import json
import pathlib
import re
import subprocess
import tempfile
import tomllib

import openai
import pytest
from harness import CLUSTER, MODEL, ROOT, Cluster, running


def cluster(*words):
    return subprocess.run([CLUSTER, *map(str, words)], capture_output=True, text=True, timeout=60, cwd=ROOT)


@pytest.fixture
def short_path():
    """Sockets are in it: the names of pytest's own temporary directories are too long."""
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        yield pathlib.Path(directory)


def test_help_teaches():
    commands = re.findall(r"^  (\S+)", cluster("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
    assert {"up", "down", "status", "plan", "drain", "add-node", "scale", "import", "chat", "doctor"} <= set(commands)
    assert not {"root", "gateway", "head", "agent", "shard"} & set(commands)  # roles are not for typing


@pytest.mark.parametrize("words, near", [(["statu"], "status"), (["status", "--jsn"], "--json"), (["up", "x", "--jso"], "--json")])
def test_unknown_words_are_refused_with_the_nearest(words, near):
    done = cluster(*words)
    assert done.returncode == 2
    assert f"did you mean '{near}'" in done.stderr


def test_plan_and_doctor_speak_json(tmp_path):
    plan = json.loads(cluster("plan", "examples/quickstart.toml", "--json").stdout)
    assert plan["stages"] == 2 and sum(s["layers"] for s in plan["shards"]) == 30
    assert [e["streams"] for e in plan["expected"]] == [1, 8, 32] and all(e["tokens_per_second"] > 1 for e in plan["expected"])
    several = json.loads(cluster("plan", "examples/replicas.toml", "--json").stdout)["pipelines"]
    assert [(p["pipeline"], p["model"]) for p in several] == [(0, "smollm2"), (1, "smollm2"), (2, "smollm2-short")]
    doctor = json.loads(cluster("doctor", "examples/quickstart.toml", "--json").stdout)
    assert all(set(row) == {"check", "ok", "found", "fix"} for row in doctor)


def test_a_torchserve_configuration_is_imported(tmp_path):
    yaml = tmp_path / "model-config.yaml"
    yaml.write_text("minWorkers: 1\nmaxWorkers: 1\nresponseTimeout: 120\nparallelType: pp\ntorchrun:\n  nproc-per-node: 2\npippy:\n  chunks: 1\n")
    done = cluster("import", yaml, "--model", MODEL)
    assert done.returncode == 0 and "note: pippy is left out" in done.stderr
    config = tmp_path / "nodes.toml"
    config.write_text(done.stdout)
    assert json.loads(cluster("plan", config, "--json").stdout)["stages"] == 2
    assert 'torchserve_inference = "127.0.0.1:8080"' in done.stdout
    properties = tmp_path / "config.properties"
    properties.write_text("inference_address=http://127.0.0.1:9080\nmodel_store=/models\n")
    carried = cluster("import", yaml, "--model", MODEL, "--properties", properties)
    assert 'torchserve_inference = "127.0.0.1:9080"' in carried.stdout and '[model_store]\npath = "/models"' in carried.stdout
    alone = cluster("import", properties, "--model", MODEL)
    assert '[model_store]\npath = "/models"' in alone.stdout and alone.returncode == 0, alone.stderr
    assert "model" not in tomllib.loads(cluster("import", properties).stdout)  # handlers need no LLM
    yaml.write_text("minWorkers: 2\nbatchSize: 4\nmaxBatchDelay: 50\nstartupTimeout: 9\nhandler:\n  word: hello\n")
    worker = tomllib.loads(cluster("import", yaml, "--model", MODEL, "--handler", "own/shout.py").stdout)["workers"][0]
    assert worker == {"name": "shout", "version": "1.0", "count": 2, "batch_size": 4, "max_batch_delay": 0.05, "startup_timeout": 9,
                      "command": ["python3", "-m", "baton_worker.torchserve", "own/shout.py", "--model-yaml-config", str(yaml)]}
    assert "note: batchSize is left out" in cluster("import", yaml, "--model", MODEL).stderr
    yaml.write_text("parallelType: dp\n")
    refused = cluster("import", yaml, "--model", MODEL)
    assert refused.returncode == 1 and "parallelType is 'dp': one of custom, pp, pptp, tp is needed" in refused.stderr
    assert "--model names the" in cluster("import", yaml).stderr
    yaml.write_text("minWorkers: 2\n")
    assert set(tomllib.loads(cluster("import", yaml, "--handler", "own/shout.py").stdout)) == {"gateway", "workers"}
    properties.write_text("inference_address=http://127.0.0.1:9080\n")
    assert "--model names the" in cluster("import", properties).stderr
    assert "'--modle' is not understood" in cluster("import", yaml, "--modle", MODEL).stderr


def test_the_commands_of_other_servers_are_imported(tmp_path):
    config = tmp_path / "nodes.toml"
    for command in (["vllm", "serve", MODEL, "--max-model-len", "1k", "-pp", "2"],
                    ["text-generation-launcher", "--model-id", MODEL, "--max-total-tokens", "1000", "--num-shard", "2"]):
        done = cluster("import", *command)
        assert done.returncode == 0 and "note: gateway.http is only for this machine" in done.stderr, done.stderr
        config.write_text(done.stdout)
        plan = json.loads(cluster("plan", config, "--json").stdout)
        assert len(plan["shards"]) == 2, plan
    refused = cluster("import", "vllm", "serve", MODEL, "--max-model-len", "long")
    assert refused.returncode == 1 and "--max-model-len is 'long': a number is needed" in refused.stderr


def test_a_repository_of_triton_is_imported(tmp_path):
    llm, add = tmp_path / "repository" / "llm", tmp_path / "repository" / "add_sub"
    for one in (llm / "1", llm / "2", add / "1"):
        one.mkdir(parents=True)
    (llm / "config.pbtxt").write_text('backend: "vllm"\ninstance_group [{ count: 1 kind: KIND_MODEL }]\n')
    (llm / "2" / "model.json").write_text(json.dumps({"model": str(MODEL), "max_model_len": 1024, "gpu_memory_utilization": 0.5}))
    (add / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: 8\ndynamic_batching {}\n')
    done = cluster("import", tmp_path / "repository")
    assert done.returncode == 0 and "note: llm: --gpu-memory-utilization is left out" in done.stderr, done.stderr
    assert f'"baton_worker.triton", "{add}/1/model.py"' in done.stdout and "batch_size = 8" in done.stdout
    config = tmp_path / "nodes.toml"
    config.write_text(done.stdout)
    assert len(json.loads(cluster("plan", config, "--json").stdout)["shards"]) == 1
    alone = cluster("import", add / "config.pbtxt")
    assert alone.returncode == 0 and "[model]" not in alone.stdout, alone.stderr
    config.write_text(alone.stdout)
    assert "no LLM" in cluster("plan", config).stdout
    assert cluster("import", add, "--model", MODEL).returncode == 0
    shown = cluster("import", ROOT / "examples/workers/models", "--model", MODEL)
    assert shown.returncode == 0 and "left out" not in shown.stdout, shown.stderr
    config.write_text(shown.stdout)
    assert "preferred_batch_size = [4, 8]" in shown.stdout and cluster("plan", config).returncode == 0
    (add / "config.pbtxt").write_text("backend: {")
    assert "add_sub/config.pbtxt: line 1" in cluster("import", add, "--model", MODEL).stderr


def test_model_inspect_says_what_a_file_holds_and_whether_it_runs(tmp_path):
    out = cluster("model", "inspect", MODEL)
    assert out.returncode == 0 and "runs" in out.stdout.splitlines()[0] and "30 layers" in out.stdout
    reply = json.loads(cluster("model", "inspect", MODEL, "--json").stdout)
    assert reply["runs"] and reply["model"]["kv_bytes_per_token"] == 2 * 2 * 3 * 64 * 30
    assert sum(t["count"] for t in reply["tensors"].values()) == 272
    assert reply["speed"]["tokens_per_second_at_most"] > 1
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(pathlib.Path(MODEL).read_bytes()[:1000])
    refused = cluster("model", "inspect", damaged)
    assert refused.returncode == 1 and refused.stderr.startswith("error: ")


def test_model_inspect_counts_the_experts_that_a_token_uses():
    reply = json.loads(cluster("model", "inspect", "tests/data/model/families/mixtral.gguf", "--json").stdout)
    experts, stored = reply["model"]["experts"], sum(t["bytes"] for t in reply["tensors"].values())
    assert (experts["count"], experts["used"]) == (4, 2)
    assert reply["model"]["packed_bytes"] >= stored
    assert reply["model"]["step_bytes"] == stored - experts["bytes"] // 2


def test_a_configuration_that_cannot_be_is_refused_by_key(tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text('[model]\nname = "m"\npath = "nowhere.gguf"\nmax_num_seq = 1\n[[nodes]]\nname = "a"\ndevices = ["cpu:0"]\n')
    done = cluster("up", bad)
    assert done.returncode != 0
    assert "model.max_num_seq" in done.stderr and "'max_num_seqs'" in done.stderr


def test_an_address_in_use_is_named(short_path, shared):
    c = Cluster(short_path)
    c.config.write_text(c.config.read_text().replace(str(c.http_port), str(shared.http_port)))
    done = c.command("up", str(c.config))
    assert done.returncode == 78
    assert f"gateway.http: 127.0.0.1:{shared.http_port} is in use" in done.stderr and not done.stdout


def test_status_and_a_second_up_see_the_running_cluster(shared):
    done = shared.command("status", str(shared.config))
    assert done.returncode == 0
    for word in ("head", "gateway", "agent-a", "shard-0", "shard-1", "ready"):
        assert word in done.stdout
    again = shared.command("up", str(shared.config))
    assert again.returncode != 0 and "already running" in again.stderr


def test_an_unsupported_model_is_reported(short_path):
    c = Cluster(short_path)
    assert c.command("status", str(c.config)).returncode == 3
    assert c.command("down", str(c.config)).returncode == 3


def test_the_doors_answer_to_an_alias_of_the_model():
    imported = cluster("import", "vllm", "serve", MODEL, "--served-model-name", "small", "org/small:latest", "gpt").stdout
    (aliases,) = re.findall(r"^aliases = .*$", imported, re.M)
    with running(model=aliases, devices=("cpu:0",)) as c:
        client = openai.OpenAI(base_url=c.url + "/v1", api_key="none")
        assert [m.id for m in client.models.list()][1:] == ["org/small:latest", "gpt"]
        assert client.models.retrieve("org/small:latest").id == "org/small:latest"
        for name in ("org/small:latest", "gpt"):
            reply = client.completions.create(model=name, prompt="The sky is", max_tokens=2)
            assert reply.model == name and reply.usage.completion_tokens == 2
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="small", prompt="x")


def test_chat_answers_one_question(shared):
    done = shared.command("chat", "--endpoint", shared.door, "--temperature", "0", "--max-tokens", "24", "Say hello.")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) > 3
