"""Containers of Kubernetes' pods, as the files in examples/kubernetes describe them. Each runs in namespaces of its own, as its user and
without capabilities. Its root directory cannot be written, and the volumes are at their paths. Nothing in the commands is replaced."""
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

import yaml
from harness import CLUSTER, ROOT

EXAMPLES = ROOT / "examples/kubernetes"
SYSTEM = ("bin", "lib", "lib64", "sbin")  # links into /usr
PATH = "/opt/bin:/usr/bin:/bin"
PROBE_SECONDS_MAX = 5


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def may_make_pods():
    """Tries everything that a pod needs, because containers refuse parts of it."""
    if os.getuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter", "setpriv", "chroot", "curl"))):
        return False
    probe = f"pod{os.getpid() % 100000}p"
    tried = [ip("netns", "add", probe), ip("netns", "exec", probe, "unshare", "-m", "-p", "-f", "mount", "-t", "tmpfs", "none", "/tmp")]
    ip("netns", "del", probe)
    return all(done.returncode == 0 for done in tried)


def objects(file):
    return list(yaml.safe_load_all((EXAMPLES / file).read_text()))


def one(file, kind, name):
    (found,) = [thing for thing in objects(file) if thing["kind"] == kind and thing["metadata"]["name"] == name]
    return found


def spec_of(thing):
    return thing["spec"]["template"]["spec"] if thing["kind"] == "StatefulSet" else thing["spec"]


class Network:
    """A network namespace. It has the address of a host if the pod uses the host's network."""

    def __init__(self, name, address=None, peer=None):
        self.name = name
        commands = [("netns", "add", name), ("-n", name, "link", "set", "lo", "up")]
        if peer:
            commands += [("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", "eth0", "netns", peer.name)]
        for words in commands:
            done = ip(*words)
            assert done.returncode == 0, (words, done.stderr)
        for network, own in ((self, address), *([(peer, peer.address)] if peer else [])):
            if own and peer:
                ip("-n", network.name, "addr", "add", own + "/24", "dev", "eth0")
                ip("-n", network.name, "link", "set", "eth0", "up")
        self.address = address

    def command(self, *words):
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def remove(self):
        ip("netns", "del", self.name)


class Container:
    """`volumes`: name -> a directory here. `fields`: what the downward API gives."""

    def __init__(self, directory, network, pod, spec, volumes, fields, configs):
        self.directory, self.network, self.spec = pathlib.Path(directory), network, spec
        self.directory.mkdir(parents=True)
        self.output = self.directory / "output"
        self.root = self.directory / "root"
        self.root.mkdir()
        both = {**pod.get("securityContext", {}), **spec["securityContext"]}
        assert both["readOnlyRootFilesystem"] and both["capabilities"] == {"drop": ["ALL"]} and not both["allowPrivilegeEscalation"]
        user, group = both["runAsUser"], both.get("runAsGroup", 0)
        self.as_user = ["setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={both.get('fsGroup', group)}", "--no-new-privs", "--bounding-set=-all",
                        "--inh-caps=-all"]
        self.environment = {"PATH": PATH, "HOME": "/home/baton", **{v["name"]: self.value(v, fields, configs) for v in spec.get("env", [])}}
        self.mounts = [(volumes[m["name"]], m["mountPath"], m.get("readOnly", False)) for m in spec.get("volumeMounts", [])]
        self.process = None

    @staticmethod
    def value(variable, fields, configs):
        source = variable.get("valueFrom")
        if not source:
            return variable["value"]
        if "fieldRef" in source:
            return fields[source["fieldRef"]["fieldPath"]]
        return configs[source["configMapKeyRef"]["name"]][source["configMapKeyRef"]["key"]]

    def expanded(self, words):
        for name, value in self.environment.items():
            words = [word.replace(f"$({name})", value) for word in words]
        return words

    def words(self):
        return self.expanded([*self.spec["command"], *self.spec.get("args", [])])

    def script(self, words):
        """Makes the root directory, and becomes the command."""
        q, root = shlex.quote, shlex.quote(str(self.root))
        lines = ["set -e", f"mount -t tmpfs none {root}", f"cd {root}", "mkdir -p usr proc dev etc tmp opt/bin", "mount --rbind /usr usr", "mount --rbind /dev dev",
                 "mount -t tmpfs -o size=64k none dev/shm",  # nothing here takes memory from it
                 *(f"ln -s usr/{name} {name}" for name in SYSTEM), "cp /etc/passwd /etc/group /etc/ld.so.cache etc", "touch opt/bin/cluster",
                 f"mount --bind {q(os.path.realpath(CLUSTER))} opt/bin/cluster", "mount -t proc none proc"]
        for here, there, read_only in self.mounts:
            at = q(there.lstrip("/"))
            lines += [f"mkdir -p {at}", f"mount --bind {q(str(here))} {at}", *([f"mount -o remount,ro,bind {at}"] if read_only else [])]
        variables = " ".join(q(f"{name}={value}") for name, value in self.environment.items())
        command = " ".join(map(q, [*self.as_user, *words]))
        return "\n".join([*lines, f"mount -o remount,ro {root}", f"exec chroot {root} /usr/bin/env -i {variables} {command}"])

    def start(self):
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen(self.network.command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", self.script(self.words())),
                                            stdout=out, stderr=subprocess.STDOUT)
        return self

    def run(self, seconds=60):
        """Runs to its end, as an init container."""
        self.start()
        assert self.process.wait(seconds) == 0, self.printed()

    def printed(self):
        return self.output.read_text()

    def pid(self):
        """The pid of its first process, as this machine numbers it."""
        (first,) = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(first)

    def inside(self, *words):
        """`kubectl exec`, or a hook."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return ["nsenter", "-t", str(self.pid()), "-m", "-p", "-n", "-r", "/usr/bin/env", "-i", *variables, *self.as_user, *words]

    def execute(self, *words, seconds=120):
        return subprocess.run(self.inside(*words), capture_output=True, text=True, timeout=seconds, check=False)

    def begin_end(self):
        """The kubelet runs the hook first, while the container still serves."""
        return subprocess.Popen(self.inside(*self.spec["lifecycle"]["preStop"]["exec"]["command"]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def terminate(self):
        os.kill(self.pid(), signal.SIGTERM)

    def get(self, path, port, *words):
        """-> (status, body); (0, ...) without an answer"""
        done = subprocess.run(self.network.command("curl", "-s", "-m", PROBE_SECONDS_MAX, "-w", "\n%{http_code}", f"http://127.0.0.1:{port}{path}", *words),
                              capture_output=True, text=True, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body

    def probe(self, name):
        """Whether it succeeds now."""
        if "exec" in self.spec[name]:
            return self.execute(*self.spec[name]["exec"]["command"], seconds=self.spec[name]["timeoutSeconds"]).returncode == 0
        action = self.spec[name]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self.spec["ports"]}
        return 200 <= self.get(action["path"], ports.get(action["port"], action["port"]))[0] < 400

    def wait_for_probe(self, name, seconds=60):
        until = time.monotonic() + seconds
        while not self.probe(name):
            assert self.process.poll() is None, self.printed()
            assert time.monotonic() < until, self.printed()
            time.sleep(0.1)

    def stop(self):
        if self.process and self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                os.kill(self.pid(), signal.SIGKILL)
            self.process.wait(20)


class Stream:
    """A chat that curl reads in a network namespace."""

    def __init__(self, network, port, prompt, tokens, model="smollm2", key=None):
        body = {"model": model, "stream": True, "temperature": 0, "max_tokens": tokens, "ignore_eos": True, "messages": [{"role": "user", "content": prompt}]}
        self.process = subprocess.Popen(network.command("curl", "-sN", "-m", "110", f"http://127.0.0.1:{port}/v1/chat/completions", "-d", json.dumps(body),
                                                        *(["-H", f"Authorization: Bearer {key}"] if key else [])), stdout=subprocess.PIPE, text=True)
        self.lines = [self.process.stdout.readline()]  # it has begun

    def text(self):
        self.lines += self.process.stdout.read().splitlines()
        self.process.wait()
        data = [line[6:].strip() for line in self.lines if line.startswith("data: ")]
        assert data[-1] == "[DONE]", data[-2:]
        return "".join(choice["delta"].get("content") or "" for each in map(json.loads, data[:-1]) for choice in each["choices"])
