"""The cost of machines linked by a network: encryption, and the time to start. Called by growth.py."""
import os
import pathlib
import socket
import subprocess
import time

import report
import servers
from sections import pipeline
from settings import say

STREAMS = 16
CURVE_BAR = 0.98  # of the tokens/s of the same pipeline within one machine, by sockets of the file system without encryption
START_BAR = 5.0  # s
PORTS = 8  # root, head, the desk, the nodes' agents
EXAMPLE = servers.ROOT / "examples" / "four_nodes"
FAR = "127.0.0.2"


def free_ports():
    """The first of PORTS in a row, below those that outgoing connections take."""
    for first in range(21000 + os.getpid() % 5000, 32000, PORTS):
        try:
            for port in range(first, first + PORTS):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise servers.ServerFailed("no free ports")


class TwoMachines(servers.Cluster):
    """A device on each of two "machines", which are loopback addresses. The link between them is TCP with CURVE."""

    def __init__(self, binary, model, devices):
        super().__init__(binary, model, devices[:1])
        far = self.directory / "far"
        far.mkdir()
        (far / "cluster").symlink_to(pathlib.Path(binary).resolve())
        launch = f"env PATH={far}:/usr/bin:/bin XDG_RUNTIME_DIR={far} XDG_CONFIG_HOME={far}/config"
        network = f'host = "127.0.0.1"\nport = {free_ports()}\nkey = "{self.directory}/key"\n\n[model]'
        text = self.config.read_text().replace("[model]", network, 1).replace("pipeline_parallel_size = 1", "pipeline_parallel_size = 2")
        self.config.write_text(text + f'\n[[nodes]]\nname = "b"\nhost = "{FAR}"\ndevices = ["{devices[1]}"]\nlaunch = "{launch}"\n')
        subprocess.run([binary, "keygen", self.directory / "key"], stdout=subprocess.DEVNULL, check=True)


def tokens_per_second(settings, kind, devices, seed):
    with kind(settings.cluster, settings.model, devices) as server:
        return pipeline.decode(settings, server, STREAMS, seed)[0]


def curve(settings):
    """Decoding of two stages, in turns: on one machine, and on two."""
    devices = servers.core_devices(2)[0]
    found = {servers.Cluster: [], TwoMachines: []}
    for round_index in range(settings.rounds):
        say(f"growth: curve, round {round_index + 1} of {settings.rounds}")
        for kind in (servers.Cluster, TwoMachines) if round_index % 2 == 0 else (TwoMachines, servers.Cluster):
            found[kind].append(settings.undisturbed(lambda kind=kind, seed=1 + round_index: tokens_per_second(settings, kind, devices, seed)))
    one, two = found[servers.Cluster], found[TwoMachines]
    return [report.median_row("growth.curve.one_machine", one, "tokens/s"), report.median_row("growth.curve.two_machines", two, "tokens/s"),
            report.ratio_row("growth.curve.two/one", two, one, CURVE_BAR)]


class FourNodes(servers.Server):
    """examples/four_nodes in its namespaces."""

    def __init__(self, binary, model):
        super().__init__("four nodes")
        self._binary = pathlib.Path(binary).resolve()
        own = f'run_dir = "{self.directory}/run"\nkey = "{self.directory}/key"\nhost ='
        text = EXAMPLE.with_suffix(".toml").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{self.port}").replace("host =", own, 1)
        self.config = self.directory / "nodes.toml"
        self.config.write_text(text.replace(f"models/{model.name}", str(pathlib.Path(model).resolve())))
        subprocess.run([binary, "keygen", self.directory / "key"], stdout=subprocess.DEVNULL, check=True)

    def command(self):
        return ["env", f"TMPDIR={self.directory}", f"PATH={self._binary.parent}:{os.environ['PATH']}", self._binary, "up", self.config]


def start(settings):
    """From `cluster up` to the first 200 of /health."""
    script = EXAMPLE.with_suffix(".sh")
    made = subprocess.run([script, "up"], capture_output=True, text=True, check=False)
    try:
        if made.returncode:
            return [report.missing("growth.start.four_machines", f"no network namespaces: {made.stderr.strip().splitlines()[-1:]}", "s", START_BAR)]
        seconds = []
        for round_index in range(settings.rounds + 1):  # the first one warms the page cache
            say(f"growth: start, round {round_index} of {settings.rounds}")
            with FourNodes(settings.cluster, settings.model) as server:
                seconds.append(time.monotonic() - server.begun)
        return [report.median_row("growth.start.four_machines", seconds[1:], "s", START_BAR, lower_is_better=True)]
    finally:
        subprocess.run([script, "down"], capture_output=True, check=False)
