"""A cluster of worker models alone, as users of TorchServe and Triton have it: no LLM, no shards, no head. Every API serves, or reports
that there is no LLM."""
import json
import re
import signal

import openai
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import worker_models
from browser import browser, find_chromium
from harness import free_port, free_ports, running
from test_workers import PLAY, WithWorkers, table, wait_for

from baton_client import BatonError, Client, Tensor


class WorkersAlone(WithWorkers, worker_models.WithWorkers):
    def __init__(self, directory, workers, **options):
        super().__init__(directory, workers, **options)
        self.torchserve, self.grpc_port = free_ports(3), free_port()
        self.config.write_text(f"""
[cluster]
name = "alone"
run_dir = "{self.directory}/run"
[gateway]
http = "127.0.0.1:{self.http_port}"
zmq = "{self.door}"
torchserve_inference = "127.0.0.1:{self.torchserve}"
torchserve_management = "127.0.0.1:{self.torchserve + 1}"
torchserve_metrics = "127.0.0.1:{self.torchserve + 2}"
kserve_grpc = "127.0.0.1:{self.grpc_port}"
{workers}""")


@pytest.fixture(scope="module")
def cluster():
    with running(WorkersAlone, workers=table("play", PLAY, count=2)) as c:
        c.wait_workers("play")
        yield c


def refusal(call):
    with pytest.raises((openai.APIStatusError, BatonError)) as e:
        call()
    return e.value


def test_it_is_ready_and_says_what_it_is(cluster):
    assert cluster.health() == (200, {"status": "ok", "phase": "ready", "reason": None, "model": None})
    reply = cluster.status()
    assert (reply["phase"], reply["model"], reply["pipelines"]) == ("ready", "", [])
    assert sorted(p["name"] for p in reply["processes"]) == ["gateway", "worker-play-0", "worker-play-1"]
    assert "worker models" in cluster.command("status", cluster.config).stdout
    plan = cluster.command("plan", cluster.config).stdout
    assert "no LLM" in plan and re.search(r"play +1 +2 +\d+", plan), plan
    plan = json.loads(cluster.command("plan", cluster.config, "--json").stdout)
    assert plan["pipelines"] == [] and [(w["name"], w["count"]) for w in plan["workers"]] == [("play", 2)]
    assert "curl" in cluster.output.read_text() and "/v2/repository/index" in cluster.output.read_text()
    doctor = cluster.command("doctor", cluster.config)
    assert "worker models" in doctor.stdout and "Traceback" not in doctor.stderr, doctor.stdout
    page = requests.get(cluster.url + "/cluster", timeout=10).json()
    assert page["models"] == [] and page["pipelines"] == [] and page["load"] is None
    assert requests.get(cluster.url + "/load", timeout=10).json()["scheduler"] is None
    assert 'model="play"' in requests.get(cluster.url + "/metrics", timeout=10).text
    assert "Requests2XX" in requests.get(f"http://127.0.0.1:{cluster.torchserve + 2}/metrics", timeout=10).text
    assert requests.get(cluster.url + "/", timeout=10).status_code == 200
    assert "play" not in requests.get(cluster.url + "/v1/models", timeout=10).text


@pytest.mark.skipif(not find_chromium(), reason="no chromium")
def test_the_page_shows_what_runs_and_no_chat(cluster):
    with browser() as page:
        page.look(width=600)
        page.open(cluster.url)
        page.until(lambda: page.text("#phase") == "ready" and page.text("#model") == "no LLM: worker models only")
        names = "[...document.querySelectorAll('#rows th')].map(e => e.textContent)"
        page.until(lambda: set(page.value(names)) == {"gateway", "worker-play-0", "worker-play-1"})
        is_shown = "(id => document.getElementById(id).checkVisibility())"
        assert [i for i in ("ask", "talk", "shelf", "views", "open-settings", "meters", "rate") if page.value(f"{is_shown}('{i}')")] == []
        assert [i for i in ("phase", "numbers", "events", "rows") if not page.value(f"{is_shown}('{i}')")] == []
        assert page.text("#numbers-title") == "Counts" and page.text("#count-open-requests") == "0"
        page.press("s", "KeyS", alt=True)
        assert not page.value("document.getElementById('settings').open")
        assert page.complaints == []


def test_all_apis_serve_its_models(cluster):
    assert cluster.reply_of("play", do="who")["model"] == "play"
    predicted = requests.post(f"http://127.0.0.1:{cluster.torchserve}/predictions/play", json={"do": "who"}, timeout=30)
    assert predicted.status_code == 200 and predicted.json()["model"] == "play"
    assert requests.get(f"http://127.0.0.1:{cluster.torchserve}/ping", timeout=10).json() == {"status": "Healthy"}
    listed = requests.get(f"http://127.0.0.1:{cluster.torchserve + 1}/models", timeout=10).json()
    assert [m["modelName"] for m in listed["models"]] == ["play"]
    http = triton_http.InferenceServerClient(cluster.url.removeprefix("http://"))
    assert http.is_server_ready() and http.is_model_ready("play")
    assert [m["name"] for m in http.get_model_repository_index()] == ["play"]
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{cluster.grpc_port}") as rpc:
        assert rpc.is_server_live() and rpc.is_server_ready() and rpc.is_model_ready("play")
    with Client(cluster.door) as client:
        again = client.infer("play", [Tensor("x", "UINT8", [3], b"one")])
        assert [t.name for t in again.outputs] == ["again-x"]
        assert client.models() == []


def test_a_request_for_an_llm_is_rejected(cluster):
    client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="-", max_retries=0)
    assert client.models.list().data == []
    for call in (lambda: client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "x"}]),
                 lambda: client.completions.create(model="smollm2", prompt="x", stream=True),
                 lambda: client.embeddings.create(model="smollm2", input="x"),
                 lambda: client.responses.create(model="smollm2", input="x")):
        e = refusal(call)
        assert e.status_code == 404 and "no LLM" in e.message, e
    for route, body in (("/tokenize", {"prompt": "x"}), ("/generate", {"inputs": "x"}), ("/generate_stream", {"inputs": "x"}), ("/", {"inputs": "x"}),
                        ("/generate", {"prompt": "x"}), ("/v2/models/smollm2/infer", {"inputs": []}), ("/v2/models/smollm2/generate", {"text_input": "x"})):
        answer = requests.post(cluster.url + route, json=body, timeout=10)
        assert answer.status_code in (400, 404), (route, answer.status_code, answer.text)
    assert requests.get(cluster.url + "/info", timeout=10).status_code == 404
    torchserve = f"http://127.0.0.1:{cluster.torchserve}"
    assert requests.post(torchserve + "/predictions/smollm2", data="x", timeout=10).status_code == 404
    assert requests.post(torchserve + "/invocations", data="x", timeout=10).status_code in (400, 404)
    broken = requests.post(cluster.url + "/v1/chat/completions", json={"model": "smollm2", "messages": [{"role": "user", "content": "x"}], "stream": True},
                           headers={"Last-Event-ID": "7.9:3"}, timeout=10)
    assert broken.status_code in (400, 404), broken.text
    with Client(cluster.door) as client:
        assert str(refusal(lambda: client.generate("x"))).startswith("model_not_found")
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{cluster.grpc_port}") as rpc:
        with pytest.raises(Exception, match="smollm2"):
            rpc.get_model_metadata("smollm2")
    chat = cluster.command("chat", "hello", "--cluster", cluster.config)
    assert chat.returncode == 1 and "no LLM" in chat.stderr, chat.stderr
    assert cluster.reply_of("play", do="who")  # no other model was affected
    assert {p["restarts"] for p in cluster.status()["processes"]} == {0}


def test_killed_processes_are_restarted(cluster):
    for victim in ("gateway", "worker-play-0"):
        former = (victim, cluster.pid(victim))
        cluster.kill(victim)
        cluster.wait_standing(former)
        wait_for(lambda: cluster.ask("play", {"do": "who"})[0] == 200)
    pids = cluster.pids()
    cluster.process.kill()
    cluster.process.wait()
    cluster.start()
    wait_for(lambda: cluster.pids() == pids)  # the next root adopts the remaining processes, once it knows them
    assert cluster.reply_of("play", do="who")


def test_it_drains_and_ends_cleanly():
    with running(WorkersAlone, workers=table("play", PLAY)) as c:
        c.wait_workers("play")
        c.process.send_signal(signal.SIGTERM)
        assert c.process.wait(30) == 0, c.output.read_text()


def test_a_model_repository_is_enough(tmp_path):
    model = tmp_path / "models" / "double" / "1"
    model.mkdir(parents=True)
    (model.parent / "config.pbtxt").write_text('backend: "python"\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
                                               'output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]\n')
    (model / "model.py").write_text("import triton_python_backend_utils as pb\n"
                                    "class TritonPythonModel:\n"
                                    "    def execute(self, requests):\n"
                                    "        x = [pb.get_input_tensor_by_name(r, 'x').as_numpy() for r in requests]\n"
                                    "        return [pb.InferenceResponse([pb.Tensor('y', v * 2)]) for v in x]\n")
    with running(WorkersAlone, workers=f'[model_repository]\npath = "{tmp_path / "models"}"\n') as c:
        def ask():
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}
            answer = requests.post(f"{c.url}/v2/models/double/infer", json=body, timeout=30)
            return answer.status_code == 200 and answer.json()["outputs"][0]["data"]
        assert wait_for(ask) == [2, 4]


def test_a_configuration_without_models_is_rejected(tmp_path):
    with pytest.raises(AssertionError, match=r"there is no \[model\] table"), running(WorkersAlone, workers=""):
        pass
    with pytest.raises(AssertionError, match="worker models run on the machine"), running(
            WorkersAlone, workers=table("play", PLAY) + '[[nodes]]\nname = "a"\ndevices = ["cpu"]\n'):
        pass
