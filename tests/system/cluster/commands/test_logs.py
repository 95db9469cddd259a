"""How much the processes of a cluster log, and which settings control it."""
import os
import subprocess
import sys
import time
import urllib.request

import pytest
from harness import CLUSTER, ROOT, Cluster, running



class Workers(Cluster):
    """A cluster of one worker model, because it starts at once. `flags`: for `cluster up`; `env`: added to its environment."""
    flags, env = (), {}

    def __init__(self, directory, level=None, flags=(), env=None, gateway=""):
        super().__init__(directory, gateway=gateway)
        handler = self.directory / "handler.py"
        handler.write_text("import logging\n\n\ndef handle(data, context):\n    if data is None:  # as TorchServe asks once at the start\n        return None\n"
                           "    logging.getLogger('mine').info('was asked')\n    return ['well'] * len(data)\n")
        level = f'log_level = "{level}"' if level else ""
        self.config.write_text(f"""
[cluster]
name = "test"
run_dir = "{self.directory}/run"
{level}
[gateway]
http = "127.0.0.1:{self.http_port}"
zmq = "{self.door}"
{gateway}
[[workers]]
name = "w"
command = ["{sys.executable}", "-m", "baton_worker.torchserve", "{handler}"]
""")
        self.flags, self.env = flags, env or {}

    def start(self, wait=True):
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen([self.binary, "up", self.config, *self.flags], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT,
                                            env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python"), **self.env})
        self.wait_ready()
        return self

    def ask(self):
        urllib.request.urlopen(urllib.request.Request(self.url + "/v1/workers/w", b"a"), timeout=20).read()
        self.health()

    def access(self):
        """The access log, once it has stopped growing."""
        file, before = self.directory / "run/gateway.access.log", None
        end = time.monotonic() + 10
        while time.monotonic() < end:
            now = file.read_text() if file.exists() else ""
            if now == before:
                return now
            before = now
            time.sleep(0.3)
        return before


@pytest.mark.parametrize("table, level", [
    ({}, "info"),
    ({"level": "warn"}, "warn"),
    ({"level": "warn", "env": {"BATON_LOG_LEVEL": "debug"}}, "debug"),
    ({"env": {"BATON_LOG_LEVEL": "debug"}, "flags": ("--log-level", "warn")}, "warn"),
])
def test_the_flag_goes_ahead_of_the_environment_and_that_of_the_file(table, level):
    with running(Workers, **table) as c:
        c.ask()
        access, root_of_worker = c.access(), c.logs()
        is_logged = level != "warn"
        assert ("path=/v1/workers/w status=200" in access) == is_logged
        assert ("path=/health status=200" in access) == (level == "debug")
        assert ("was asked" in root_of_worker) == is_logged


@pytest.mark.parametrize("level, is_logged", [("info", True), ("warn", False)])
def test_the_root_has_a_log_of_its_own_and_the_terminal_none_of_it(level, is_logged):
    with running(Workers, level=level) as c:
        log = c.directory / "run/root.log"
        assert ("gateway started" in log.read_text()) == is_logged
        assert "started: pid" not in c.output.read_text()
        before = log.read_text()
        c.process.kill()
        c.process.wait(30)
        c.start()
        assert log.read_text().startswith(before)  # the next root appends to it
        assert "started: pid" not in c.output.read_text()


def test_there_is_no_access_log_where_none_is_wanted():
    with running(Workers, gateway="access_log = false") as c:
        c.ask()
        assert not (c.directory / "run/gateway.access.log").exists()


def test_a_level_that_there_is_not_is_refused_by_its_name(tmp_path):
    c = Workers(tmp_path)
    flag = subprocess.run([CLUSTER, "up", c.config, "--log-level", "loud"], capture_output=True, text=True, timeout=30)
    assert flag.returncode == 2 and "loud" in flag.stderr and "warn" in flag.stderr
    variable = subprocess.run([CLUSTER, "up", c.config], capture_output=True, text=True, timeout=30, env={**os.environ, "BATON_LOG_LEVEL": "loud"})
    assert variable.returncode == 2 and "BATON_LOG_LEVEL is 'loud'" in variable.stderr and "warn" in variable.stderr
