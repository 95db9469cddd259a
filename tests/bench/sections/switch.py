"""A switch between two models on demand with one loaded at a time: from a request for the other model to its first token.

Called by first_minute.py. The second model is a copy of the first one's file. Both are in the page cache.
"""
import re
import shutil

import load as loads
import report
import servers
from settings import say

BAR_SECONDS = 1.0
SWITCHES = 4  # of a round
NAMES = ("one", "two")
MAX_TOKENS = 8

NODES_TOML = '''# written by tests/bench
[cluster]
name = "bench"
run_dir = "{directory}/run"
shutdown_timeout = 2
max_loaded_models = 1

[gateway]
http = "127.0.0.1:{port}"
zmq = ""
'''
MODELS_TOML = '''
[[models]]
name = "{name}"
path = "{path}"
load = "on-demand"
'''


class OnDemand(servers.Cluster):
    """`paths`: of the models."""

    def __init__(self, binary, paths):
        super().__init__(binary, paths[0], ["cpu:0"])
        tables = "".join(MODELS_TOML.format(name=name, path=path) for name, path in zip(NAMES, paths))
        self.config.write_text(NODES_TOML.format(directory=self.directory, port=self.port) + tables)

    def loads(self):
        """The number of loads, over all models."""
        return loads_in(self.metrics())


def loads_in(text):
    return sum(float(value) for value in re.findall(r"^baton_model_loads_total\{[^}]*\} (\S+)$", text, re.M))


def first_token(server, name):
    """Seconds from the request to the first piece of text. Raises ServerFailed."""
    load = loads.Load(server.url, 1, 1, max_tokens=MAX_TOKENS, model=name, warmup=0, timeout=servers.READY_SECONDS_MAX)
    stream = loads.drive(load)[0][0]
    if not stream.stamps or loads.faults_of(stream, MAX_TOKENS):
        raise servers.ServerFailed(f"{name}: {stream.error or loads.faults_of(stream, MAX_TOKENS)}; {server.log_end()}")
    return stream.stamps[0] - stream.begun


def one_round(settings, paths):
    with OnDemand(settings.cluster, paths) as server:
        for name in NAMES:  # the second is loaded now
            first_token(server, name)
        before = server.loads()
        with settings.watch("switch of models", server.process.pid):
            results = [first_token(server, NAMES[i % 2]) for i in range(SWITCHES)]
        loaded = [first_token(server, NAMES[(SWITCHES - 1) % 2]) for _ in range(SWITCHES)]
        if server.loads() - before != SWITCHES:
            raise servers.ServerFailed(f"{server.loads() - before:.0f} loads in {SWITCHES} switches")
    return results, loaded


def rows_of_model(settings, name, model, bar):
    copy = settings.scratch / f"copy-{model.name}"
    shutil.copyfile(model, copy)
    switches, loaded = [], []
    try:
        for round_index in range(settings.rounds):
            say(f"switch: round {round_index + 1} of {settings.rounds}, {model.name}")
            one = settings.undisturbed(lambda: one_round(settings, (model, copy)))
            switches, loaded = switches + one[0], loaded + one[1]
    except servers.ServerFailed as error:
        return [report.missing(f"switch.{name}", str(error), "s", bar, lower_is_better=True)]
    finally:
        copy.unlink()
    return [report.median_row(f"switch.{name}", switches, "s", bar, lower_is_better=True),
            report.median_row(f"switch.{name}.when_loaded", loaded, "s")]


def rows(settings):
    made = rows_of_model(settings, "small", settings.model, None)
    if settings.model_large is None:
        return [*made, report.skipped("switch.large", "no --model-large FILE")]
    return made + rows_of_model(settings, "large", settings.model_large, BAR_SECONDS)
