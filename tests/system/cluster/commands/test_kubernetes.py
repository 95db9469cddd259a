"""The commands, probes and hooks of examples/kubernetes, run as written in namespaces that resemble pods. They have their user, a read-only
root directory, and their own paths, addresses and ports. There is no Kubernetes here: the test itself starts and ends the containers."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pods
import pytest
from harness import CLUSTER, MODEL, ROOT
from machines import wait_for

pytestmark = pytest.mark.skipif(not pods.may_make_pods(), reason="pods want root, iproute2, util-linux and CAP_SYS_ADMIN")
NAME = f"pod{os.getpid() % 100000}"
USER = 1000
TOKENS = 120
FILE = "machines.yaml"


class Place:
    """Volumes, networks and containers; all are removed at the end."""

    def __init__(self, stack):
        self.stack = stack
        self.directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-")))
        self.directory.chmod(0o755)
        self.count = 0

    def network(self, suffix="", address=None, peer=None):
        made = pods.Network(NAME + suffix, address, peer)
        self.stack.callback(made.remove)
        return made

    def empty(self):
        """As an emptyDir with an fsGroup."""
        self.count += 1
        made = self.directory / f"empty{self.count}"
        made.mkdir()
        os.chown(made, 0, USER)
        made.chmod(0o2777)
        return made

    def files(self, contents, mode=0o644):
        """As a ConfigMap's or a Secret's."""
        self.count += 1
        made = self.directory / f"files{self.count}"
        made.mkdir()
        for name, content in contents.items():
            (made / name).write_text(content)
            os.chown(made / name, 0, USER)
            (made / name).chmod(mode)
        return made

    def container(self, network, pod, spec, volumes, fields=(), configs=()):
        self.count += 1
        made = pods.Container(self.directory / f"container{self.count}", network, pod, spec, volumes, dict(fields), dict(configs))
        self.stack.callback(made.stop)
        return made


@pytest.fixture
def place():
    with contextlib.ExitStack() as stack:
        yield Place(stack)


def keygen(*words):
    done = subprocess.run([CLUSTER, "keygen", *map(str, words)], capture_output=True, text=True, check=True)
    return done.stdout


def api_keys(place):
    """-> (the Secret's directory, a user's key, an admin's)"""
    file = place.directory / "keys.toml"
    user = keygen("--api", "alice", file).split()[0]
    admin = keygen("--api", "prometheus", "--admin", file).split()[0]
    return place.files({"keys.toml": file.read_text()}, 0o440), user, admin


def test_a_pod_of_one_machine_serves_and_drains(place):
    thing = pods.one("one-machine.yaml", "StatefulSet", "baton")
    pod = pods.spec_of(thing)
    (spec,) = pod["containers"]
    (pull,) = pod["initContainers"]
    repository, _, quant = pull["command"][2].removeprefix("hf:").rpartition(":")
    models = place.empty()
    snapshot = models / f"hub/models--{repository.replace('/', '--')}"  # what its `cluster pull` would leave in HF_HOME
    (snapshot / "refs").mkdir(parents=True)
    (snapshot / "refs/main").write_text("1" * 40)
    (snapshot / "snapshots" / ("1" * 40)).mkdir(parents=True)
    shutil.copy(MODEL, snapshot / "snapshots" / ("1" * 40) / f"SmolLM2-135M-Instruct-{quant}.gguf")
    keys, user, admin = api_keys(place)
    config = pods.one("one-machine.yaml", "ConfigMap", "baton")["data"]
    volumes = {"config": place.files(config), "keys": keys, "models": models, "run": place.empty(), "home": place.empty(), "tmp": place.empty()}
    network = place.network()
    served = place.container(network, pod, spec, volumes)
    served.start()
    assert not served.probe("startupProbe")
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        served.wait_for_probe(name)
    status = served.execute("cluster", "status")
    assert status.returncode == 0 and "shard-0" in status.stdout, status
    assert served.get("/v1/models", 8000)[0] == 401 and served.get("/metrics", 8000, "-H", f"Authorization: Bearer {user}")[0] == 403
    seen, metrics = served.get("/metrics", 8000, "-H", f"Authorization: Bearer {admin}")
    assert seen == 200 and "\nvllm:num_requests_waiting{" in metrics
    asked = time.monotonic()
    undisturbed = pods.Stream(network, 8000, "Tell me about a river.", TOKENS, key=user).text()
    tokens_of_6_s = max(TOKENS, int(TOKENS * 6 / (time.monotonic() - asked)))
    assert undisturbed

    began = time.monotonic()
    hook = served.begin_end()
    wait_for(lambda: time.monotonic() > began + 3)
    assert served.probe("readinessProbe")  # endpoints still lead here
    stream = pods.Stream(network, 8000, "Tell me about a river.", tokens_of_6_s, key=user)
    wait_for(lambda: not served.probe("readinessProbe"), 10)
    assert served.process.poll() is None and served.probe("livenessProbe")
    assert stream.text().startswith(undisturbed)  # the whole answer, while new requests were refused
    assert served.process.wait(pod["terminationGracePeriodSeconds"]) == 0, served.printed()
    hook.communicate(timeout=10)
    assert time.monotonic() - began < pod["terminationGracePeriodSeconds"]


def test_a_gateway_that_recovers_is_alive_and_not_ready(place):
    """A liveness probe at /health would end the container here."""
    pod = pods.spec_of(pods.one("one-machine.yaml", "StatefulSet", "baton"))
    (spec,) = pod["containers"]
    keys, _, _ = api_keys(place)
    config = pods.one("one-machine.yaml", "ConfigMap", "baton")["data"]["nodes.toml"].replace('"hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0"', f'"/models/{MODEL.name}"')
    volumes = {"config": place.files({"nodes.toml": config}), "keys": keys, "models": MODEL.resolve().parent, "run": place.empty(), "home": place.empty(),
               "tmp": place.empty()}
    served = place.container(place.network(), pod, spec, volumes)
    served.start()
    served.wait_for_probe("readinessProbe")
    shard = next(line for line in served.execute("ps", "-eo", "pid,args").stdout.splitlines() if "baton-shard" in line or "shard" in line)
    assert served.execute("kill", "-STOP", shard.split()[0]).returncode == 0
    wait_for(lambda: not served.probe("readinessProbe"), 20)
    assert served.probe("livenessProbe")
    served.wait_for_probe("readinessProbe")
    assert served.process.poll() is None


class Machines:
    """Two hosts, their keys, and the objects of machines.yaml with these."""

    def __init__(self, place):
        self.place = place
        self.config = pods.one(FILE, "ConfigMap", "baton-machines")["data"]
        keys = place.directory / "machine-keys"
        for node, digit in (("worker-1", "1"), ("worker-2", "2")):
            public = keygen(keys / node).split('"')[1]
            self.config = {name: text.replace(digit * 64, public) for name, text in self.config.items()}
        self.secret = place.files({file.name: file.read_text() for file in keys.iterdir()}, 0o440)
        self.keys, self.user, _ = api_keys(place)
        first = place.network("a", "10.0.0.1")
        self.networks = {"worker-1": first, "worker-2": place.network("b", "10.0.0.2", first)}

    def started(self, name, node):
        """A pod of this StatefulSet on this Kubernetes node."""
        pod = pods.spec_of(pods.one(FILE, "StatefulSet", name))
        assert pod["hostNetwork"]
        volumes = {"config": self.place.files(self.config), "keys": self.keys, "machine-keys": self.secret, "models": MODEL.resolve().parent,
                   **{name: self.place.empty() for name in ("run", "home", "tmp")}}
        first, second = (self.place.container(self.networks[node], pod, spec, volumes, {"spec.nodeName": node}, {"baton-machines": self.config})
                         for spec in (*pod["initContainers"], *pod["containers"]))
        first.run()
        return second.start()

    def ask(self, tokens=TOKENS):
        return pods.Stream(self.networks["worker-1"], 8000, "Tell me about a river.", tokens, key=self.user)


@pytest.fixture
def machines(place):
    return Machines(place)


def test_pods_of_two_machines_join_by_their_keys_drain_and_are_lost(machines):
    root, node = machines.started("baton-root", "worker-1"), machines.started("baton-node", "worker-2")
    root.wait_for_probe("startupProbe")
    assert "joined as worker-2" in node.printed()
    undisturbed = machines.ask().text()

    drained = lambda *words: root.execute("cluster", *words, "worker-2")  # noqa: E731
    stream = machines.ask()
    done = drained("drain")
    assert done.returncode == 0 and "node worker-2 has no layers now" in done.stdout, done
    assert stream.text() == undisturbed
    node.terminate()
    assert node.process.wait(30) is not None
    assert root.probe("readinessProbe") and machines.ask().text() == undisturbed

    node = machines.started("baton-node", "worker-2")  # the next pod, with the same key and address
    wait_for(lambda: drained("add-node").returncode == 0, 60)
    stream = machines.ask(4 * TOKENS)
    node.stop()  # without a drain: the streams wait, then the other machine has all layers
    assert stream.text().startswith(undisturbed)
    root.wait_for_probe("readinessProbe")
    hook = root.begin_end()
    assert root.process.wait(60) == 0, root.printed()
    hook.communicate(timeout=10)


def test_a_pod_of_the_root_that_is_lost_is_followed_by_another(machines):
    root, node = machines.started("baton-root", "worker-1"), machines.started("baton-node", "worker-2")
    root.wait_for_probe("startupProbe")
    undisturbed = machines.ask().text()
    assert node.probe("startupProbe") and node.probe("livenessProbe")
    root.stop()
    root = machines.started("baton-root", "worker-1")  # with empty directories
    wait_for(lambda: "has not joined" in root.printed(), 60)
    assert node.process.poll() is None and not node.probe("livenessProbe")
    node.stop()
    node.start()  # as the kubelet does after some failures
    root.wait_for_probe("readinessProbe", 90)
    wait_for(lambda: node.probe("livenessProbe"))
    assert machines.ask().text() == undisturbed


def test_the_runtime_of_kserve_serves_a_directory_and_drains(place):
    thing = pods.one("kserve.yaml", "ServingRuntime", "baton")
    (spec,) = thing["spec"]["containers"]
    name = pods.one("kserve.yaml", "InferenceService", "smollm2")["metadata"]["name"]
    spec["args"] = [text.replace("{{.Name}}", name) for text in spec["args"]]  # KServe's part, like /mnt/models
    spec["volumeMounts"].append({"name": "model", "mountPath": "/mnt/models", "readOnly": True})
    volumes = {"model": ROOT / "tests/data/model/checkpoint", "run": place.empty(), "home": place.empty(), "tmp": place.empty()}
    network = place.network()
    served = place.container(network, thing["spec"], spec, volumes)
    served.start()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        served.wait_for_probe(probe)
    seen, model = served.get(f"/v2/models/{name}/ready", 8080)
    assert seen == 200, model
    assert pods.Stream(network, 8080, "Hello", 8, model=name).text()
    stream = pods.Stream(network, 8080, "Hello", 64, model=name)
    served.terminate()
    stream.text()
    grace = pods.one("kserve.yaml", "InferenceService", "smollm2")["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert served.process.wait(grace) == 0, served.printed()
