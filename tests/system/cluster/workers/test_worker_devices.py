"""Where workers compute: the GPUs that they get, the device passed to their handlers, and the cores that they are bound to.
CUDA_VISIBLE_DEVICES alone simulates a machine with GPUs: no handler here opens them."""
import concurrent.futures
import json
import os
import pathlib
import tempfile

import numpy
import pytest
import tritonclient.http as triton_http
from harness import running
from test_model_repository import WithRepository
from test_model_store import WithStore
from test_without_llm import WorkersAlone
from test_workers import HANDLERS, table, wait_for

WHERE = HANDLERS / "where.py"


def where(name, *words, **settings):
    return table(name, WHERE, *words, module="baton_worker.torchserve", **settings)


@pytest.fixture
def machine(monkeypatch):
    """Sets the devices of the cluster's machine."""

    def has(gpus, threads=None):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if threads:
            monkeypatch.setenv("OMP_NUM_THREADS", threads)

    return has


@pytest.fixture
def short():
    """A directory for sockets: their paths must be short."""
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        yield pathlib.Path(directory)


def physical_cores():
    """One hardware thread of each core that this process may use, as the cluster counts them."""
    cores, seen = [], set()
    for core in sorted(os.sched_getaffinity(0)):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        group = siblings.read_text().strip() if siblings.exists() else str(core)
        if group not in seen:
            cores.append(core)
        seen.add(group)
    return cores


def of_each(cluster, model, count):
    """The reply of each of the model's workers, by its name."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:

        def asked():
            reply = list(pool.map(lambda _: cluster.reply_of(model), range(4 * count)))
            found = {t["name"]: t for t in reply}
            return [found[name] for name in sorted(found)] if len(found) == count else None

        return wait_for(asked, 30)


def devices_shown(cluster):
    return {p["name"]: p.get("device") for p in cluster.status()["processes"]}


def test_without_gpus_handlers_get_none(machine):
    machine("")
    with running(WorkersAlone, workers=where("plain", count=2) + where("named", omp_num_threads=3)) as c:
        for model in ("plain", "named"):
            c.wait_workers(model)
        reply = of_each(c, "plain", 2)
        assert [t["gpu_id"] for t in reply] == [None, None]
        share = str(max(1, len(physical_cores()) // 3))  # of three workers
        assert [t["threads"] for t in reply] == [share, share]
        assert of_each(c, "named", 1)[0]["threads"] == "3"
        assert all(t["cores"] == sorted(os.sched_getaffinity(0)) for t in reply)
        assert devices_shown(c) == {"gateway": None, "worker-plain-0": "CPU", "worker-plain-1": "CPU", "worker-named-0": "CPU"}
        assert c.command("status", c.config).stdout.count(" CPU") == 3


def test_workers_take_the_gpus_in_turn(machine):
    machine("6,7", threads="5")
    tables = (where("a", count=3) + where("cpu", device_type="cpu") + where("b", device_type="gpu") + where("ids", count=2, device_ids=[1, -1])
              + where("both", parallel_type="custom", parallel_level=2))
    with running(WorkersAlone, workers=tables) as c:
        for model in ("a", "cpu", "b", "ids", "both"):
            c.wait_workers(model)
        assert [t["gpu_id"] for t in of_each(c, "a", 3)] == [0, 1, 0]
        assert [t["gpu_id"] for t in of_each(c, "cpu", 1)] == [None]
        assert [t["gpu_id"] for t in of_each(c, "b", 1)] == [1]
        assert [t["gpu_id"] for t in of_each(c, "ids", 2)] == [1, None]
        plain = of_each(c, "a", 3)[1]
        assert (plain["visible"], plain["threads"]) == ("6,7", "5")  # as the environment of `cluster up` says
        both = of_each(c, "both", 1)[0]
        assert (both["gpu_id"], both["visible"]) == (0, "6,7")
        shown = devices_shown(c)
        assert [shown[f"worker-{name}"] for name in ("a-0", "a-1", "a-2", "cpu-0", "b-0", "ids-0", "ids-1", "both-0")] == [
            "GPU 0", "GPU 1", "GPU 0", "CPU", "GPU 1", "GPU 1", "CPU", "GPU 0, 1"]
        assert "GPU 0; GPU 1" in c.output.read_text()  # what `up` shows first
        plan = json.loads(c.command("plan", c.config, "--json").stdout)
        assert {w["name"]: w["devices"] for w in plan["workers"]} == {
            "a": ["GPU 0", "GPU 1", "GPU 0"], "cpu": ["CPU"], "b": ["GPU 1"], "ids": ["GPU 1", "CPU"], "both": ["GPU 0, 1"]}


@pytest.mark.parametrize("settings, what", [
    ({"device_ids": [0, 2], "count": 2}, "worker-det-1 is to have GPU 2 (device_ids): this machine has 2, numbered from 0"),
    ({"device_type": "gpu", "parallel_type": "tp", "parallel_level": 4}, "worker-det-0 is to have 4 GPUs (device_type): this machine has 2, numbered from 0")])
def test_a_missing_device_is_reported_before_the_start(machine, short, settings, what):
    machine("0,1")
    c = WorkersAlone(short, where("det", **settings))
    for words in (("plan",), ("up",), ("up", "--json")):
        done = c.command(words[0], str(c.config), *words[1:])
        assert done.returncode == 78 and f"{c.config}: {what}" in done.stdout + done.stderr, done
    assert not list((short / "run").glob("*.log"))


def alone(directory, keys, workers):
    """A cluster of workers alone with these keys of [cluster]."""
    made = WorkersAlone(directory, workers)
    made.config.write_text(made.config.read_text().replace("[cluster]\n", f"[cluster]\n{keys}\n"))
    return made


def test_each_worker_is_bound_to_cores_of_its_own(machine):
    machine("")
    with running(lambda directory: alone(directory, "cpu_launcher_enable = true", where("a", count=2))) as c:
        c.wait_workers("a")
        reply, cores = of_each(c, "a", 2), physical_cores()
        each = max(1, len(cores) // 2)
        assert reply[0]["cores"] == cores[:each]
        assert reply[1]["cores"] == (cores[each:2 * each] if len(cores) > 1 else cores)
        assert {t["threads"] for t in reply} == {str(each)}


def test_words_of_the_launcher_are_checked(machine, tmp_path):
    machine("")
    keys = 'cpu_launcher_enable = true\ncpu_launcher_args = "{}"'
    for words, what in (("--core-list 0,4095 --ncores-per-instance 1", "--core-list has core 4095"), ("--rank 1", "--rank: TorchServe sets it itself"),
                        ("--cores 3", "--cores is not known")):
        c = alone(tmp_path, keys.format(words), where("a"))
        done = c.command("plan", str(c.config))
        assert done.returncode == 78 and f"{c.config}: cluster.cpu_launcher_args" in done.stderr and what in done.stderr, done


TRITON = '''
import json, numpy
import triton_python_backend_utils as pb
class TritonPythonModel:
    def initialize(self, args):
        self.told = [args["model_instance_kind"], args["model_instance_device_id"], args["model_instance_name"]]
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("told", numpy.array(self.told, dtype=object))]) for _ in requests]
'''
CONFIG = """
backend: "python"
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "told" data_type: TYPE_STRING dims: [ 3 ] } ]
"""


class WithGroups(WithRepository):
    def __init__(self, directory, groups):
        super().__init__(directory)
        for name, group in groups.items():
            place = self.models / name
            (place / "1").mkdir(parents=True)
            (place / "config.pbtxt").write_text(CONFIG + group)
            (place / "1" / "model.py").write_text(TRITON)

    def instances(self, model, count):
        """{worker: [kind, device]} of the model."""
        client = triton_http.InferenceServerClient(f"127.0.0.1:{self.http_port}", concurrency=8)

        def asked():
            given = triton_http.InferInput("x", [1], "FP32")
            given.set_data_from_numpy(numpy.zeros(1, "float32"))
            found = {}
            for answer in [client.async_infer(model, [given]) for _ in range(4 * count)]:
                kind, device, name = answer.get_result().as_numpy("told")
                found[name] = [kind.decode(), device.decode()]
            return [found[name] for name in sorted(found)] if len(found) == count else None

        return wait_for(asked, 30)

    def index(self):
        client = triton_http.InferenceServerClient(f"127.0.0.1:{self.http_port}")
        return {one["name"]: (one["state"], one["reason"]) for one in client.get_model_repository_index()}


def test_instances_of_triton_have_their_kind_and_device(machine):
    machine("0,1")
    groups = {"none": "", "gpus": "instance_group [{ kind: KIND_GPU count: 1 gpus: [ 1 ] }, { kind: KIND_CPU }]", "model": "instance_group [{ kind: KIND_MODEL }]"}
    with running(WithGroups, groups=groups) as c:
        wait_for(lambda: all(state == "READY" for state, _ in c.index().values()), 30)
        assert sorted(c.instances("none", 2)) == [["GPU", "0"], ["GPU", "1"]]  # one of each: turns are of all models
        assert c.instances("gpus", 2) == [["GPU", "1"], ["CPU", "0"]]
        assert c.instances("model", 1) == [["MODEL", "0"]]


def test_without_gpus_an_instance_of_triton_is_on_the_cpu_or_unavailable(machine):
    machine("")
    groups = {"none": "", "cpu": "instance_group [{ kind: KIND_CPU }]", "gpu": "instance_group [{ kind: KIND_GPU }]"}
    with running(WithGroups, groups=groups) as c:
        wait_for(lambda: {state for state, _ in c.index().values()} == {"READY", "UNAVAILABLE"}, 30)
        assert c.instances("none", 1) == c.instances("cpu", 1) == [["CPU", "0"]]
        state, reason = c.index()["gpu"]
        assert state == "UNAVAILABLE" and "worker-gpu-0 is to have a GPU (device_type): this machine has no GPU" in reason


def test_an_archive_that_names_gpus_has_these_or_is_refused(machine):
    machine("0,1")
    handler = {"handler.py": WHERE.read_text()}.items()
    archives = {"two.mar": dict(model="two", config="minWorkers: 2\ndeviceType: gpu\ndeviceIds: [1, 0]\n", extra=handler),
                "nine.mar": dict(model="nine", config="minWorkers: 1\ndeviceIds: [9]\n", extra=handler)}
    with running(WithStore, archives=archives, section='load_models = ["two.mar"]\n') as c:
        def asked():
            reply = [c.ask("POST", "/predictions/two", b"x", at=c.inference) for _ in range(8)]
            found = {body["name"]: body["gpu_id"] for status, body in reply if status == 200}
            return found if len(found) == 2 else None

        assert wait_for(asked, 30) == {"worker-two-0": 1, "worker-two-1": 0}
        status, answered = c.register("nine.mar", initial_workers=1, synchronous="true")
        assert status >= 400 and "worker-nine-0 is to have GPU 9 (device_ids): this machine has 2" in json.dumps(answered), answered
