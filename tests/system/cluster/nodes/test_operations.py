"""The dashboard and the alert rules in examples/ match this server: /metrics has every name and label of their queries."""
import json
import os
import re
import shlex
import shutil
import subprocess
import time
import urllib.request

import promql_parser
import pytest
import yaml
from harness import CLUSTER, ROOT, running
from prometheus_client.parser import text_string_to_metric_families
from streams import Stream

# Prometheus's own, of every target.
ADDED = {"job", "instance"}
SEEN_SECONDS_MAX = 20


def selectors(node):
    """Every series that a query asks for: (metric, labels that it matches by)."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, {m.name for m in node.matchers.matchers}
    for part in ("expr", "lhs", "rhs", "vector_selector", "args"):
        below = getattr(node, part, None)
        for each in below if isinstance(below, list) else [below] if below is not None else []:
            yield from selectors(each)


def board():
    return json.loads((ROOT / "examples/grafana.json").read_text())


def rules():
    return yaml.safe_load((ROOT / "examples/prometheus_alerts.yml").read_text())["groups"][0]["rules"]


def queries():
    """(the panel or rule, its query, the labels that it groups by or shows in a legend)"""
    for panel in board()["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], query, set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    for note in board()["annotations"]["list"]:
        yield note["name"], note["expr"], set(re.findall(r"{{(\w+)}}", note["titleFormat"]))
    for rule in rules():
        text = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], set(re.findall(r"\$labels\.(\w+)", text))


def leave(cluster):
    """A client that hangs up in the middle of its stream."""
    body = {"model": "smollm2", "stream": True, "messages": [{"role": "user", "content": "Count."}], "max_tokens": 400, "ignore_eos": True}
    with urllib.request.urlopen(urllib.request.Request(cluster.url + "/v1/chat/completions", json.dumps(body).encode()), timeout=60) as answer:
        answer.readline()


@pytest.fixture(scope="module")
def series():
    """{metric: its labels} of a server that has answered, refused, resumed and lost clients."""
    with running() as cluster:
        Stream(cluster, "Say hello.", max_tokens=8).check()
        assert cluster.post("/v1/completions", {"model": "nobody", "prompt": "Hello"})[0] == 404
        for _ in range(2):
            Stream(cluster, "Say hello.", max_tokens=8, request_id="again").check()
        leave(cluster)
        found = {}
        deadline = time.monotonic() + SEEN_SECONDS_MAX
        while time.monotonic() < deadline and not {"baton_choices_ended_total", "baton_clients_gone_total"} <= set(found):
            with urllib.request.urlopen(cluster.url + "/metrics", timeout=5) as answer:
                for family in text_string_to_metric_families(answer.read().decode()):
                    for sample in family.samples:
                        found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("who, query, legend", [pytest.param(*q, id=q[0].replace(" ", "_")) for q in queries()])
def test_every_query_asks_for_what_there_is(series, who, query, legend):
    asked = list(selectors(promql_parser.parse(query)))
    assert asked, query
    for name, labels in asked:
        if name == "up":
            continue
        assert name in series, f"{who}: {name} is not in /metrics"
        assert labels <= series[name] | ADDED, f"{who}: {name} has {series[name]}"
    grouped = set(sum((re.findall(r"\w+", g) for g in re.findall(r"\bby \(([^)]*)\)", query)), []))
    had = set().union(*(series.get(name, set()) for name, _ in asked)) | ADDED
    assert grouped <= had and legend <= had, f"{who}: {had}"


def test_the_board_is_one_that_grafana_lays_out():
    places = [p["gridPos"] for p in board()["panels"]]
    assert len({p["id"] for p in board()["panels"]}) == len(places)
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells)), "panels lie over one another"
    assert max(x for x, _ in cells) < 24


def test_alert_rules_have_what_prometheus_wants():
    assert [r["alert"] for r in rules()] == sorted({r["alert"] for r in rules()}, key=[r["alert"] for r in rules()].index)
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"} and rule["labels"]["severity"] in ("page", "ticket")
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    config = yaml.safe_load((ROOT / "examples/prometheus.yml").read_text())
    assert all((ROOT / "examples" / name).exists() for name in config["rule_files"])


def test_the_image_installs_what_the_binary_is_linked_with():
    """Except for libraries that every Debian has, and for the packages' own dependencies."""
    linked = subprocess.run(["readelf", "-d", CLUSTER], capture_output=True, text=True, check=True).stdout
    found = subprocess.run(["ldd", CLUSTER], capture_output=True, text=True, check=True).stdout
    places = dict(re.findall(r"(\S+) => (/\S+)", found))
    needed = set()
    for name in re.findall(r"NEEDED.*\[(.*)\]", linked):
        if name in places:
            owner = subprocess.run(["dpkg", "-S", os.path.realpath(places[name])], capture_output=True, text=True).stdout
            needed.add(owner.split(":")[0])
    everywhere = {"libc6", "libgcc-s1", "libstdc++6", ""}
    final = (ROOT / "examples/Containerfile").read_text().split("FROM ")[-1]
    assert needed - everywhere and needed - everywhere <= set(final.split()), needed


def commands_of_examples():
    """-> (file, words) of each `cluster` that the units and the image name, in comments as well."""
    for name in ("baton.service", "baton-node.service", "Containerfile"):
        text = (ROOT / "examples" / name).read_text()
        found = re.findall(r"^ExecStart=/usr/local/bin/cluster (.+)$|-u baton cluster (.+)$|`cluster ([^`]+)`", text, re.M)
        found += [(words,) for words in re.findall(r"^#.* baton (up .+)$", text, re.M)]
        if name == "Containerfile":
            assert 'ENTRYPOINT ["cluster"]' in text
            found.append((" ".join(json.loads(re.search(r"^CMD (.+)$", text, re.M)[1])),))
        for groups in found:
            yield name, shlex.split("".join(groups))


def test_commands_of_units_and_image_exist():
    def help_of(*words):
        return subprocess.run([CLUSTER, *words, "--help"], capture_output=True, text=True, check=True).stdout

    named = list(commands_of_examples())
    assert {(file, words[0]) for file, words in named} == {("baton.service", "up"), ("baton.service", "status"), ("baton.service", "down"),
                                                           ("baton-node.service", "join"), ("baton-node.service", "up"),
                                                           ("baton-node.service", "keygen"), ("Containerfile", "up"), ("Containerfile", "--help")}
    for file, words in named:
        command = [w for w in words[:1] if not w.startswith("-")]
        assert all(re.search(rf"^\s+{w}\b", help_of(), re.M) for w in command), (file, words)
        for flag in (w for w in words if w.startswith("--")):
            assert re.search(rf"(?<![-\w]){re.escape(flag)}\b", help_of(*command)), (file, words)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", ["baton.service", "baton-node.service"])
def test_systemd_takes_the_units(unit, tmp_path):
    """The tool prints nothing if they have no fault. The binary is that of the build, because none is installed."""
    text = (ROOT / "examples" / unit).read_text()
    (tmp_path / unit).write_text(text.replace("/usr/local/bin/cluster", str(CLUSTER)))
    (tmp_path / "wrong.service").write_text(text.replace("KillMode=process", "KillMode=proces"))

    def verified(file):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(tmp_path / file)], capture_output=True, text=True)
        return done.returncode, "\n".join(row for row in done.stderr.splitlines() if file in row or "baton" in row)

    assert verified(unit) == (0, "")
    assert "kill mode" in verified("wrong.service")[1]
