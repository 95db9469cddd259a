"""The files of examples/kubernetes against published schemas, the programs that they call, one another, and `cluster plan`.
tests/system/cluster/commands/test_kubernetes.py runs their commands."""
import copy
import functools
import json
import re
import subprocess
import sys

import command_lines as lines
import promql_parser
import pytest
import yaml

sys.path.insert(0, str(lines.ROOT / "tests/system/clients"))
from own_venv import HERE, program  # noqa: E402

FOLDER = lines.ROOT / "examples/kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
VERSIONS = ("1.30", "1.37")  # of Kubernetes: the oldest and the newest
MODEL = lines.ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
SECRETS = {"baton-keys", "baton-machine-keys"}  # made by the commands in the files' heads


@functools.cache
def objects():
    """[(file, object)]"""
    return [(file, thing) for file in FILES for thing in yaml.safe_load_all(file.read_text())]


def named(kind, name):
    (found,) = [thing for _, thing in objects() if thing["kind"] == kind and thing["metadata"]["name"] == name]
    return copy.deepcopy(found)


def judged(things, version=VERSIONS[-1]):
    """The errors of each object by the schema of its kind."""
    done = subprocess.run([program("manifests", "python"), HERE / "manifests_check.py", version], input="".join(json.dumps(t) + "\n" for t in things),
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(things)
    return [answer["errors"] for answer in answers], [answer["schema"] for answer in answers]


def pod_of(thing):
    """The part that describes a pod, like a pod's `spec`."""
    return thing["spec"]["template"]["spec"] if thing["kind"] == "StatefulSet" else thing["spec"]


def containers():
    """[(file, pod, container)], init containers included."""
    return [(file, pod_of(thing), each) for file, thing in objects() if "containers" in json.dumps(thing)
            for each in [*pod_of(thing).get("initContainers", []), *pod_of(thing)["containers"]]]


def words_of(container):
    """Everything that a container runs: [words]."""
    found = [[*container.get("command", []), *container.get("args", [])]]
    actions = [container.get("lifecycle", {}).get("preStop", {}), *(container.get(probe, {}) for probe in PROBES)]
    return found + [action["exec"]["command"] for action in actions if "exec" in action]


def commands_of(words):
    """The commands that it starts, directly or through a shell."""
    if words[:2] == ["sh", "-c"]:
        text = re.sub(r"<<END.*?^END$", "", "\n".join(words[2:]), flags=re.M | re.S)
        return [one[one[0] == "exec":] for line in text.splitlines() for one in lines.commands_of(line)]
    return [words]


def config_in(thing):
    """A nodes.toml that it holds; "" if none."""
    if thing["kind"] == "ConfigMap":
        return thing["data"]["nodes.toml"]
    if thing["kind"] == "ServingRuntime":
        (script,) = thing["spec"]["containers"][0]["args"]
        return re.search(r"<<END\n(.*?)^END$", script, re.M | re.S)[1].replace("{{.Name}}", "smollm2")
    return ""


def test_there_are_files_of_every_kind():
    kinds = {thing["kind"] for _, thing in objects()}
    assert kinds == {"ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet", "ScaledObject", "ServingRuntime", "InferenceService"}


@pytest.mark.parametrize("version", VERSIONS)
def test_published_schemas_accept_every_object(version):
    errors, schemas = judged([thing for _, thing in objects()], version)
    assert errors == [[] for _ in errors]
    assert set(schemas) == {"kubernetes-validate", "cloudcoil.models.keda", "kserve"}


def changed(thing, change):
    at = thing
    *path, last, value = change
    for key in path:
        at = at[key]
    at[last] = value
    return thing


@pytest.mark.parametrize("kind, name, change, error", [
    ("StatefulSet", "baton", ("spec", "template", "spec", "terminationGracePeriod", 60), "'terminationGracePeriod' was unexpected"),
    ("StatefulSet", "baton", ("spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet", "url", "/"), "'url' was unexpected"),
    ("StatefulSet", "baton", ("spec", "replicas", "2"), "is not of type"),
    ("Service", "baton", ("spec", "ports", 0, "port", "http"), "is not of type"),
    ("ConfigMap", "baton", ("apiVersion", "v2"), "Couldn't find schema"),
    ("ScaledObject", "baton", ("spec", "maxReplicas", 4), "'maxReplicas' was unexpected"),
    ("ScaledObject", "baton", ("spec", "triggers", 0, "metadata", "threshold", 4), "is not of type 'string'"),
    ("ScaledObject", "baton", ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown", "policies", 0, "value", "one"), "is not"),
    ("ServingRuntime", "baton", ("spec", "supportedModels", []), "'supportedModels' was unexpected"),
    ("ServingRuntime", "baton", ("spec", "containers", 0, "startupProbe", "http", {}), "'http' was unexpected"),
    ("InferenceService", "smollm2", ("spec", "predictor", "model", "format", "x"), "'format' was unexpected"),
    ("InferenceService", "smollm2", ("spec", "predictor", "minReplicas", "1"), "is not of type 'integer'"),
])
def test_a_wrong_field_is_found(kind, name, change, error):
    ((errors,), _) = judged([changed(named(kind, name), change)])
    assert any(error in each for each in errors), errors


def test_commands_of_containers_exist():
    lines.CLUSTER.exists() or pytest.skip(f"{lines.CLUSTER} is not built")
    called = [(file, one) for file, _, container in containers() for words in words_of(container) for one in commands_of(words)]
    wrong = [f"{file.name}: {text}" for file, one in called if one[0] == "cluster" for text in lines.wrong_in_cluster(one[1:])]
    assert wrong == []
    assert {one[0] for _, one in called} == {"cluster", "sleep", "cat", "install"}
    assert {one[1] for _, one in called if one[0] == "cluster"} == {"up", "down", "join", "pull", "status"}


def test_commands_of_the_files_heads_exist():
    lines.CLUSTER.exists() or pytest.skip(f"{lines.CLUSTER} is not built")
    said = [line for file in FILES for line in re.findall(r"^#   (.*)$", file.read_text(), re.M)]
    own = [words for line in said for words in lines.commands_of(line) if words[0] == "cluster"]
    assert own and [text for words in own for text in lines.wrong_in_cluster(words[1:])] == []
    files = {words[words.index("-f") + 1] for line in said for words in lines.commands_of(line) if words[:2] == ["kubectl", "apply"]}
    assert files == {"examples/kubernetes/one-machine.yaml", "examples/kubernetes/machines.yaml"}
    assert {words[4] for line in said for words in lines.commands_of(line) if words[:3] == ["kubectl", "create", "secret"]} == SECRETS


def test_what_a_pod_refers_to_is_there():
    configs = {thing["metadata"]["name"]: thing["data"] for _, thing in objects() if thing["kind"] == "ConfigMap"}
    for file, pod, container in containers():
        volumes = {v["name"]: v for v in pod.get("volumes", [])}
        claims = {"models"} if "volumeClaimTemplates" in file.read_text() else set()
        for mount in container.get("volumeMounts", []):
            assert mount["name"] in volumes or mount["name"] in claims, (file, mount)
        for volume in volumes.values():
            assert volume.get("configMap", {}).get("name") in {None, *configs} and volume.get("secret", {}).get("secretName") in {None, *SECRETS}
        for variable in container.get("env", []):
            if wanted := variable.get("valueFrom", {}).get("configMapKeyRef"):
                assert wanted["key"] in configs[wanted["name"]]
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for probe in PROBES:
            if "httpGet" in container.get(probe, {}):
                assert container[probe]["httpGet"]["port"] in {*ports, *ports.values()}
        known = {"$(" + v["name"] + ")" for v in container.get("env", [])}
        assert set(re.findall(r"\$\(\w+\)", " ".join(words_of(container)[0]))) <= known
    sets = {t["metadata"]["name"]: t["spec"]["template"]["metadata"]["labels"] for _, t in objects() if t["kind"] == "StatefulSet"}
    services = {t["metadata"]["name"]: t["spec"]["selector"] for _, t in objects() if t["kind"] == "Service"}
    for selector in services.values():
        assert any(selector.items() <= labels.items() for labels in sets.values())
    for _, thing in objects():
        if thing["kind"] == "StatefulSet":
            assert thing["spec"]["serviceName"] in services
            assert thing["spec"]["selector"]["matchLabels"] == sets[thing["metadata"]["name"]]
        if thing["kind"] == "ScaledObject":
            assert thing["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "baton"} and "baton" in sets


def test_pods_are_restricted():
    """Each pod meets Kubernetes' profile "restricted" and has a memory limit. Only machines.yaml uses the host's network."""
    for file, pod, container in containers():
        own = container["securityContext"]
        whole = {**pod.get("securityContext", {}), **own}
        assert whole["runAsNonRoot"] is True and whole["runAsUser"] != 0 and whole["seccompProfile"] == {"type": "RuntimeDefault"}, file
        assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True and own["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"} and "memory" in container["resources"]["limits"]
        assert pod.get("hostNetwork", False) == (file.name == "machines.yaml")


def test_a_pod_has_the_time_that_its_drain_takes():
    for file, pod, container in containers():
        (config,) = {config_in(t) for f, t in objects() if f == file and config_in(t)}
        timeout = int((re.findall(r"^shutdown_timeout = (\d+)$", config, re.M) or ["30"])[0])
        grace = pod.get("terminationGracePeriodSeconds", named("InferenceService", "smollm2")["spec"]["predictor"]["terminationGracePeriodSeconds"])
        hook = " ".join(container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", []))
        sleep, patience = (int(found) for found in re.search(r"sleep (\d+);.*--patience (\d+)", hook).groups()) if hook else (0, timeout)
        assert patience >= timeout and grace >= sleep + patience + 10 or "join" in words_of(container)[0] or container in pod.get("initContainers", []), file


def configs():
    return [pytest.param(config_in(thing), id=f"{file.stem}-{thing['kind']}") for file, thing in objects() if config_in(thing)]


@pytest.mark.parametrize("text", configs())
def test_cluster_plan_accepts_the_configuration(text, tmp_path):
    lines.CLUSTER.exists() or pytest.skip(f"{lines.CLUSTER} is not built")
    config = tmp_path / "nodes.toml"
    config.write_text(re.sub(r"^path = .*$", f'path = "{MODEL}"', text, flags=re.M))
    done = subprocess.run([lines.CLUSTER, "plan", config], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    config.write_text(config.read_text().replace("kv_cache_bytes", "kv_cache_byte"))
    assert subprocess.run([lines.CLUSTER, "plan", config], capture_output=True, timeout=120, check=False).returncode == 78


def test_keda_asks_for_a_metric_that_the_reference_has():
    (trigger,) = named("ScaledObject", "baton")["spec"]["triggers"]
    query = promql_parser.parse(trigger["metadata"]["query"])
    page = (lines.ROOT / "docs/reference/metrics.md").read_text()
    assert query.expr.name == "vllm:num_requests_waiting" and "`vllm:num_requests_running`, `_waiting`" in page
    assert {matcher.name for matcher in query.expr.matchers.matchers} == {"namespace", "pod"}  # labels of every target that Prometheus finds in a cluster
