"""Serves a model repository of Triton unchanged. Triton's own clients load, unload and list, files change under the cluster, and no request is lost."""
import concurrent.futures
import contextlib
import functools
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

import harness
import httpx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from harness import free_port, free_ports
from worker_models import SDK, WithWorkers, wait_for

sys.path[:0] = [str(SDK), str(SDK / "tests")]

from baton_client import BatonError, Client, Tensor  # noqa: E402

import numpy as np  # noqa: E402
from counters import counters, fallen  # noqa: E402
import onnx_bytes  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

CONFIG = """
backend: "python"
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }} ]
{more}
"""
# A negative x waits until a file exists.
MODEL = '''
import os, time
import triton_python_backend_utils as pb
class TritonPythonModel:
    def initialize(self, args):
        {initialize}
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "x").as_numpy()
            while (x < 0).any() and not os.path.exists({gate!r}):
                time.sleep(0.02)
            answers.append(pb.InferenceResponse([pb.Tensor("y", x * {factor})]))
        return answers
'''


class WithRepository(WithWorkers):
    def __init__(self, directory, section="", models=None, **options):
        self.models = pathlib.Path(directory) / "models"
        self.models.mkdir()
        self.gate = str(pathlib.Path(directory) / "gate")
        self.grpc_port = free_port()
        for name, factor in (models or {}).items():
            self.write(name, factor)
        super().__init__(directory, devices=("cpu:0",), gateway=f'kserve_grpc = "127.0.0.1:{self.grpc_port}"',
                         nodes=f'[model_repository]\npath = "{self.models}"\n{section}', **options)

    def write(self, name, factor, version=1, initialize="pass", more=""):
        """Replaces the model's directory in one step, as the documentation requires."""
        made = pathlib.Path(tempfile.mkdtemp(dir=self.models, prefix="."))
        (made / str(version)).mkdir()
        (made / "config.pbtxt").write_text(CONFIG.format(more=more))
        (made / str(version) / "model.py").write_text(MODEL.format(initialize=initialize, gate=self.gate, factor=factor))
        made.chmod(0o755)
        if (self.models / name).exists():
            (self.models / name).rename(made / "before")
            shutil.rmtree(made / "before")
        made.rename(self.models / name)

    def rewrite(self, name, factor, version=1, initialize="pass"):
        file = self.models / name / str(version) / "model.py"
        file.with_suffix(".new").write_text(MODEL.format(initialize=initialize, gate=self.gate, factor=factor))
        file.with_suffix(".new").rename(file)

    def ask(self, model, *values, version="", timeout=30):
        with Client(self.door) as client:
            x = Tensor.of("x", np.array(values, np.float32))
            answer = client.infer(model, [x], version=version, deadline=timeout)
            return answer.outputs[0].numpy().tolist()

    @property
    def http(self):
        return triton_http.InferenceServerClient(self.url.removeprefix("http://"), connection_timeout=60, network_timeout=60)

    @property
    def grpc(self):
        return triton_grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")

    def index(self, **asked):
        """-> {name: (state, reason)}; with several versions {name/version: ...}"""
        listed = self.post("/v2/repository/index", asked)[2]
        several = {m["name"] for m in listed if sum(n["name"] == m["name"] for n in listed) > 1}
        return {m["name"] + (f"/{m.get('version')}" if m["name"] in several else ""): (m["state"], m["reason"]) for m in listed}

    def wait_state(self, model, state, seconds=30):
        return wait_for(lambda: (now := self.index().get(model, ("", ""))) and now[0] == state and now, seconds, self.index, self.logs)


running = functools.partial(harness.running, WithRepository)


@contextlib.contextmanager
def asked_all_the_time(cluster, model):
    """Yields the answers to 2.0 so far; each request must have one."""
    answers, over = [], threading.Event()

    def ask():
        with Client(cluster.door) as client:
            while not over.is_set():
                x = Tensor.of("x", np.array([2.0], np.float32))
                answers.append(client.infer(model, [x], deadline=30).outputs[0].numpy().tolist()[0])

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        try:
            yield answers
        finally:
            over.set()
        for one in asking:
            one.result()


EXPLICIT = 'control_mode = "explicit"\nload_models = ["double"]\n'


@pytest.fixture(scope="module")
def explicit():
    with running(section=EXPLICIT, models={"double": 2, "triple": 3}) as c:
        c.wait_state("double", "READY")
        yield c


def test_a_model_without_a_configuration_is_completed_of_its_file(explicit):
    pytest.importorskip("onnxruntime")
    made = pathlib.Path(tempfile.mkdtemp(dir=explicit.models, prefix="."))
    (made / "1").mkdir()
    (made / "1" / "model.onnx").write_bytes(onnx_bytes.add_sub())
    made.chmod(0o755)
    made.rename(explicit.models / "add_sub")
    (explicit.models / "script" / "1").mkdir(parents=True)
    (explicit.models / "script" / "1" / "model.pt").write_bytes(b"nothing")
    with explicit.http as client:
        client.load_model("add_sub")
        reply = client.get_model_config("add_sub")
        assert (reply["max_batch_size"], reply["backend"], reply["dynamic_batching"]["preferred_batch_size"]) == (4, "onnxruntime", [4])
        assert [(t["name"], t["data_type"], t["dims"]) for t in reply["input"]] == [("INPUT0", "TYPE_FP32", [2]), ("INPUT1", "TYPE_FP32", [2])]
        assert [t["shape"] for t in client.get_model_metadata("add_sub")["outputs"]] == [[-1, 2], [-1, 2]]

        def ask(rows):
            inputs = [triton_http.InferInput(name, [rows, 2], "FP32") for name in ("INPUT0", "INPUT1")]
            for one, values in zip(inputs, (2, 1)):
                one.set_data_from_numpy(np.full([rows, 2], values, np.float32))
            answer = client.infer("add_sub", inputs)
            return answer.as_numpy("OUTPUT0").tolist(), answer.as_numpy("OUTPUT1").tolist()

        assert ask(4) == ([[3, 3]] * 4, [[1, 1]] * 4)
        with pytest.raises(InferenceServerException, match="4"):
            ask(5)
        with pytest.raises(InferenceServerException, match="TorchScript"):
            client.load_model("script")
        client.unload_model("add_sub")
    shutil.rmtree(explicit.models / "script")
    shutil.rmtree(explicit.models / "add_sub")


ACCELERATED = """
platform: "onnxruntime_onnx"
optimization { execution_accelerators {
  gpu_execution_accelerator : [ { name : "tensorrt" parameters { key: "precision_mode" value: "FP16" } } ]
  cpu_execution_accelerator : [ { name : "openvino" } ]
} }
parameters { key: "ENABLE_NVFUSER" value: { string_value: "true" } }
"""


def test_what_a_config_asks_for_and_is_not_there_is_in_the_log(explicit):
    pytest.importorskip("onnxruntime")
    for name, config in (("fast", ACCELERATED), ("plan", 'platform: "tensorrt_plan"')):
        for version in ("0", "1"):  # the first is none
            (explicit.models / name / version).mkdir(parents=True)
            (explicit.models / name / version / "model.onnx").write_bytes(onnx_bytes.add_sub() if version == "1" else b"")
        (explicit.models / name / "config.pbtxt").write_text(config)
    with explicit.http as client:
        client.load_model("fast")
        assert client.get_model_metadata("fast")["versions"] == ["1"]
        inputs = [triton_http.InferInput(name, [1, 2], "FP32") for name in ("INPUT0", "INPUT1")]
        for one in inputs:
            one.set_data_from_numpy(np.ones([1, 2], np.float32))
        assert client.infer("fast", inputs).as_numpy("OUTPUT0").tolist() == [[2, 2]]
        with pytest.raises(InferenceServerException, match="onnxruntime_onnx, which takes execution_accelerators tensorrt"):
            client.load_model("plan")
        client.unload_model("fast")
    answered = "".join(file.read_text() for file in (explicit.directory / "run").glob("worker-fast-*.log"))
    assert "config.pbtxt: TensorrtExecutionProvider is left out: this instance is on the CPU" in answered
    assert "asks for OpenVINOExecutionProvider" in answered and "parameters.ENABLE_NVFUSER is not known here and changes nothing" in answered
    for name in ("fast", "plan"):
        shutil.rmtree(explicit.models / name)


WRITTEN = """
parameters { key: "threshold" value { string_value: "0.5" } }
instance_group [ { kind: KIND_CPU count: 1 } ]
optimization { graph { level: 1 } }
dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 100 }
max_batch_size: 2
metric_tags { key: "team" value: "vision" }
model_warmup [ { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: 2 zero_data: true } } } ]
version_policy { all { } }
"""


def test_a_configuration_comes_back_as_it_was_written(explicit):
    explicit.write("written", 2, more=WRITTEN)
    with explicit.http as over_http, explicit.grpc as over_grpc:
        over_http.load_model("written")
        reply = over_http.get_model_config("written")
        assert (reply["platform"], reply["backend"], reply["default_model_filename"], reply["max_batch_size"]) == ("", "python", "model.py", 2)
        assert reply["parameters"] == {"threshold": {"string_value": "0.5"}} and reply["metric_tags"] == {"team": "vision"}
        (group,) = reply["instance_group"]
        assert (group["name"], group["kind"], group["count"], group["gpus"]) == ("written_0", "KIND_CPU", 1, [])
        assert reply["optimization"]["graph"] == {"level": 1} and reply["optimization"]["input_pinned_memory"] == {"enable": True}
        assert reply["dynamic_batching"]["preferred_batch_size"] == [2] and reply["dynamic_batching"]["max_queue_delay_microseconds"] == 100
        assert reply["model_warmup"][0]["inputs"]["x"]["zero_data"] is True and reply["version_policy"] == {"all": {}}
        same = over_grpc.get_model_config("written").config
        assert (same.backend, same.instance_group[0].name, same.optimization.graph.level, same.metric_tags["team"]) == ("python", "written_0", 1, "vision")
        assert same.model_warmup[0].inputs["x"].zero_data and same.parameters["threshold"].string_value == "0.5"
        assert over_http.get_model_metadata("written")["platform"] == over_grpc.get_model_metadata("written").platform == "python"
        over_http.unload_model("written")
    shutil.rmtree(explicit.models / "written")


def test_no_counter_falls_when_a_model_is_unloaded_and_loaded_again(explicit):
    explicit.write("counted", 2)
    scrape = lambda: counters(httpx.get(explicit.url + "/metrics").text)  # noqa: E731
    # A process that ended for good has no row. Only a row that returns with a smaller value is a fault.
    rows = lambda was: {k: v for k, v in was.items() if k[0] == "baton_process_restarts_total"} | scrape()  # noqa: E731
    executions = ("nv_inference_exec_count_total", (("model", "counted"), ("version", "1")))
    with explicit.http as client:
        client.load_model("counted")
        for _ in range(3):
            explicit.ask("counted", 1)
        before = scrape()
        assert before[executions] == 3
        client.unload_model("counted")
        assert fallen(before, rows(before)) == {}
        client.load_model("counted")
        explicit.ask("counted", 1)
        after = rows(before)
        assert fallen(before, after) == {} and after[executions] == 4
        wait_for(lambda: len(explicit.workers("counted")) == 1)  # the one before may be ending
        (pid,) = explicit.workers("counted").values()
        os.kill(pid, 9)
        explicit.ask("counted", 1)
        assert fallen(after, rows(after)) == {}
        client.unload_model("counted")
    shutil.rmtree(explicit.models / "counted")


def test_models_that_are_not_loaded_are_listed_and_not_served(explicit):
    explicit.http.unload_model("triple")
    index = {m["name"]: m for m in explicit.http.get_model_repository_index()}
    assert index["double"]["state"] == "READY" and index["double"]["version"] == "1"
    assert index["triple"]["state"] == "UNAVAILABLE" and "version" not in index["triple"]
    assert index["smollm2"]["state"] == "READY"
    assert set(explicit.index(ready=True)) == {"smollm2", "double"}
    assert explicit.ask("double", 1, 2) == [2, 4]
    with pytest.raises(BatonError) as refused:
        explicit.ask("triple", 1)
    assert refused.value.name in ("model_not_found", "not_ready")


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_a_client_loads_and_unloads(explicit, door):
    with getattr(explicit, door) as client:
        client.load_model("triple")
        assert explicit.ask("triple", 1, 2) == [3, 6]
        assert client.is_model_ready("triple")
        client.load_model("triple")  # nothing has changed
        (pid,) = explicit.workers("triple").values()
        client.unload_model("triple", unload_dependents=True)
        with pytest.raises(BatonError):
            explicit.ask("triple", 1)
        assert explicit.wait_state("triple", "UNAVAILABLE") == ("UNAVAILABLE", "unloaded")
    wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())
    assert explicit.ask("double", 3) == [6]


def test_grpc_lists_what_http_lists(explicit):
    listed = explicit.grpc.get_model_repository_index()
    assert {m.name: (m.state, m.reason) for m in listed.models} == explicit.index()


def test_changed_files_are_served_from_the_next_load_and_no_request_is_lost(explicit):
    with explicit.http as client, asked_all_the_time(explicit, "double") as answers:
        before = explicit.workers("double")
        for factor in (5, 2):
            explicit.rewrite("double", factor)
            wait_for(lambda n=len(answers): len(answers) > n + 10)
            client.load_model("double")
            wait_for(lambda n=len(answers): len(answers) > n + 10)
            assert answers[-1] == 2 * factor
        assert set(answers) == {4.0, 10.0}
    wait_for(lambda: len(explicit.workers("double")) == 1)
    assert not set(before.values()) & set(explicit.workers("double").values())


def test_one_that_fails_to_load_says_why_and_can_be_mended(explicit):
    explicit.write("broken", 1, initialize='raise RuntimeError("no weights here")')
    for client in (explicit.http, explicit.grpc):
        with client, pytest.raises(InferenceServerException, match="failed to load 'broken'.*no weights here"):
            client.load_model("broken")
    state, reason = explicit.index()["broken"]
    assert state == "UNAVAILABLE" and "no weights here" in reason
    shown = next(p for p in explicit.status()["processes"] if p["name"] == "model-broken-1")
    assert shown["phase"] == "failed" and "no weights here" in shown["reason"]
    assert explicit.health()[0] == 200 and explicit.ask("double", 1) == [2]
    explicit.rewrite("broken", 7)
    with explicit.http as client:
        client.load_model("broken")
    assert explicit.ask("broken", 1) == [7]


def test_a_models_last_output_is_reported_even_if_it_is_no_text(explicit):
    explicit.write("binary", 1, initialize=r"sys = __import__('sys'); sys.stderr.buffer.write(b'\xff\xfe gone\n'); sys.stderr.flush(); os._exit(3)")
    with explicit.http as client, pytest.raises(InferenceServerException, match="failed to load 'binary'"):
        client.load_model("binary")
    shown = next(p for p in explicit.status()["processes"] if p["name"] == "model-binary-1")
    assert shown["phase"] == "failed" and "\ufffd\ufffd gone" in shown["reason"]
    assert "gone" in explicit.index()["binary"][1]
    assert explicit.health()[0] == 200 and explicit.ask("double", 1) == [2]


def test_a_reload_that_fails_leaves_what_is_served(explicit):
    explicit.write("kept", 4)
    with explicit.http as client:
        client.load_model("kept")
        explicit.rewrite("kept", 9, initialize="this is no Python")
        with pytest.raises(InferenceServerException, match="failed to load 'kept'"):
            client.load_model("kept")
        assert explicit.ask("kept", 1) == [4]
        state, reason = explicit.index()["kept"]
        assert state == "READY" and "cannot be served" in reason
        client.unload_model("kept")


def test_unsupported_load_parameters_are_rejected_by_name(explicit):
    with explicit.http as client:
        with pytest.raises(InferenceServerException, match="'config'"):
            client.load_model("triple", config="{}")
        with pytest.raises(InferenceServerException, match="'file:1/model.py'|'config'"):
            client.load_model("triple", config="{}", files={"file:1/model.py": b"x"})
        with pytest.raises(InferenceServerException, match="no such model"):
            client.load_model("nobody")
        with pytest.raises(InferenceServerException, match="no such model"):
            client.unload_model("nobody")
    with explicit.grpc as client, pytest.raises(InferenceServerException, match="'config'"):
        client.load_model("triple", config="{}")
    status, _, answered = explicit.post("/v2/repository/models/triple/load", {"parameters": {"file:1/model.py": "eA=="}})
    assert status == 400 and "'file:1/model.py'" in answered["error"]


def test_the_llm_is_what_nodes_toml_says(explicit):
    with explicit.http as client:
        client.load_model("smollm2")
        with pytest.raises(InferenceServerException, match="not allowed"):
            client.unload_model("smollm2")


def test_an_unload_waits_for_what_runs(explicit):
    explicit.write("slow", 6)
    with explicit.http as client, concurrent.futures.ThreadPoolExecutor(2) as pool:
        client.load_model("slow")
        running_one = pool.submit(explicit.ask, "slow", -1)
        wait_for(lambda: explicit.metric('baton_worker_requests_running{model_name="slow"') == 1)
        waiting_one = pool.submit(explicit.ask, "slow", 1)
        wait_for(lambda: explicit.metric('baton_worker_requests_waiting{model_name="slow"') == 1)
        client.unload_model("slow")
        assert explicit.index()["slow"][0] == "UNLOADING"
        with pytest.raises(BatonError):
            explicit.ask("slow", 1)
        pathlib.Path(explicit.gate).touch()
        assert running_one.result() == [-6] and waiting_one.result() == [6]
        assert explicit.wait_state("slow", "UNAVAILABLE")[1] == "unloaded"
        pathlib.Path(explicit.gate).unlink()


def test_a_model_loaded_again_while_it_drains_is_served(explicit):
    explicit.write("again", 8)
    with explicit.http as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client.load_model("again")
        running_one = pool.submit(explicit.ask, "again", -1)
        wait_for(lambda: explicit.metric('baton_worker_requests_running{model_name="again"') == 1)
        client.unload_model("again")
        client.load_model("again")
        assert explicit.ask("again", 1) == [8] and not running_one.done()
        pathlib.Path(explicit.gate).touch()
        assert running_one.result() == [-8]
        wait_for(lambda: len(explicit.workers("again")) == 1)
        assert explicit.ask("again", 1) == [8] and explicit.index()["again"] == ("READY", "")
        client.unload_model("again")
        pathlib.Path(explicit.gate).unlink()


def test_a_killed_worker_is_replaced_and_its_model_stays(explicit):
    (pid,) = explicit.workers("double").values()
    os.kill(pid, 9)
    assert explicit.ask("double", 4) == [8]
    assert explicit.index()["double"][0] == "READY"
    wait_for(lambda: list(explicit.workers("double").values()) not in ([pid], [0]))


def test_gateway_and_root_come_back_to_the_models_that_there_are(explicit):
    with explicit.http as client:
        client.load_model("triple")
    before = explicit.workers("triple")
    explicit.kill("gateway")
    wait_for(lambda: explicit.health()[0] == 200)
    assert explicit.ask("triple", 2) == [6]
    explicit.process.kill()
    explicit.process.wait()
    assert explicit.ask("triple", 2) == [6]
    explicit.start()
    explicit.wait_standing()
    assert explicit.ask("triple", 2) == [6] and explicit.ask("double", 2) == [4]
    assert explicit.workers("triple") == before
    with explicit.http as client:
        client.unload_model("triple")
    assert explicit.wait_state("triple", "UNAVAILABLE")[1] == "unloaded"
    wait_for(lambda: not explicit.workers("triple"))


@pytest.fixture(scope="module")
def polled():
    with running(section='control_mode = "poll"\npoll_seconds = 0.3\n', models={"double": 2}) as c:
        c.wait_state("double", "READY")
        yield c


def test_poll_finds_what_is_new_changed_and_removed(polled):
    polled.write("new", 3)
    polled.wait_state("new", "READY")
    assert polled.ask("new", 1) == [3]
    with asked_all_the_time(polled, "new") as answers:
        polled.rewrite("new", 5)
        wait_for(lambda: answers and answers[-1] == 10.0)
    assert set(answers) <= {6.0, 10.0}
    (pid,) = wait_for(lambda: len(now := polled.workers("new")) == 1 and now).values()
    polled.models.joinpath("new").rename(polled.models / ".gone")
    wait_for(lambda: "new" not in polled.index())
    wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())
    shutil.rmtree(polled.models / ".gone")
    with pytest.raises(BatonError):
        polled.ask("new", 1)
    assert polled.ask("double", 1) == [2]


def test_poll_shows_what_cannot_be_served_until_it_is_mended(polled):
    polled.write("odd", 1, more="dynamic_batching { max_queue_delay_microseconds: -1 }")
    reason = polled.wait_state("odd", "UNAVAILABLE")[1]
    assert "max_queue_delay_microseconds" in reason
    assert any(p["name"].startswith("model-odd") and p["reason"] == reason for p in polled.status()["processes"])
    polled.write("odd", 1)
    polled.wait_state("odd", "READY")
    assert polled.ask("odd", 1) == [1]


def test_poll_serves_the_versions_that_the_policy_chooses(polled):
    polled.write("aged", 1)
    polled.wait_state("aged", "READY")
    second = polled.models / "aged" / "2"
    shutil.copytree(polled.models / "aged" / "1", polled.models / ".2")
    (polled.models / ".2").rename(second)
    polled.rewrite("aged", 2, version=2)
    wait_for(lambda: polled.ask("aged", 1) == [2])
    wait_for(lambda: polled.index().get("aged", ("",))[0] == "READY")  # of the newest alone
    (polled.models / "aged" / "config.pbtxt").write_text(CONFIG.format(more="version_policy { all {} }"))
    wait_for(lambda: polled.index().get("aged/1", ("",))[0] == polled.index().get("aged/2", ("",))[0] == "READY", 30, polled.index)
    assert polled.ask("aged", 1) == [2]
    assert polled.ask("aged", 1, version="1") == [1] and polled.ask("aged", 1, version="2") == [2]


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_clients_cannot_load_models_where_the_files_decide(polled, verb):
    for client in (polled.http, polled.grpc):
        with client, pytest.raises(InferenceServerException, match="not allowed if polling is enabled"):
            getattr(client, f"{verb}_model")("double")


def test_without_control_all_is_loaded_once_and_stays():
    with running(models={"double": 2}) as c:
        c.wait_state("double", "READY")
        (c.models / "readme").mkdir()
        c.write("new", 3)
        with c.http as client, pytest.raises(InferenceServerException, match="not allowed"):
            client.load_model("double")
        assert "new" not in c.index() and c.ask("double", 1) == [2]


def test_a_repository_that_is_not_there_is_refused_at_the_start():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        c = WithRepository(directory)
        c.models.rmdir()
        try:
            c.start(wait=False)
            assert c.process.wait(30) != 0
            assert "models" in c.output.read_text()
        finally:
            c.stop()


def test_all_are_loaded_at_the_start_if_that_is_asked_for():
    with running(models={"double": 2, "triple": 3}, section='control_mode = "explicit"\nload_models = ["*"]\n') as c:
        assert c.wait_state("double", "READY") and c.wait_state("triple", "READY")


def test_two_gateways_have_each_a_worker():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        c = WithRepository(directory, section='control_mode = "explicit"\n', models={"double": 2})
        admin = free_ports(2)
        more = f'[gateway]\nprocesses = 2\nadmin = "127.0.0.1:{admin}"'
        c.config.write_text(c.config.read_text().replace("[gateway]", more).replace(f'kserve_grpc = "127.0.0.1:{c.grpc_port}"', ""))
        asked = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [4]}]}
        try:
            c.start()
            with triton_http.InferenceServerClient(f"127.0.0.1:{admin}") as client:
                client.load_model("double")
                assert len(c.workers("double")) == 2
                for _ in range(12):  # whichever gateway takes the connection
                    status, _, answered = c.post("/v2/models/double/infer", asked)
                    assert status == 200 and answered["outputs"][0]["data"] == [8], answered
                client.unload_model("double")
            wait_for(lambda: not c.workers("double"))
        finally:
            c.stop()
