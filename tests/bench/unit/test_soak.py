"""The row `soak` and its counters, without a cluster: pytest tests/bench."""
import collections
import os
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sections import memory, soak  # noqa: E402

RESTART_RULES = pathlib.Path(__file__).resolve().parents[3] / "actors/supervision/restart.hpp"
SHARDS = ["shard-0", "shard-1"]


def intensities():
    """{supervisor's name: (restarts, seconds)}, read from the source."""
    found = re.findall(r"restart_intensity (\w+)_intensity\{(\d+), std::chrono::seconds\((\d+)\)\}", RESTART_RULES.read_text())
    return {name: (int(restarts), int(seconds)) for name, restarts, seconds in found}


def test_every_kind_comes_once_a_round_in_an_order_that_the_seed_draws():
    blows = soak.plan(random.Random(1), SHARDS, 360)
    rounds = [[b.kind for b in blows[i:i + len(soak.KINDS)]] for i in range(0, 360, len(soak.KINDS))]
    assert all(sorted(r) == sorted(soak.KINDS) for r in rounds)
    assert len({tuple(r) for r in rounds}) > 10
    assert blows == soak.plan(random.Random(1), SHARDS, 360) != soak.plan(random.Random(2), SHARDS, 360)
    of_shards = [b.process for b in blows if b.process in SHARDS]
    assert of_shards == SHARDS * (len(of_shards) // 2)
    assert len(soak.plan(random.Random(1), SHARDS, 7)) == 7


def test_no_supervisor_gives_up():
    limits = intensities()
    limit_of = {"gateway": limits["gateway"], "head": limits["head"], **dict.fromkeys(SHARDS, limits["pipeline"])}
    for seed in range(50):
        recent = collections.defaultdict(collections.deque)
        for index, blow in enumerate(soak.plan(random.Random(seed), SHARDS, 360)):
            if blow.process is None:
                continue
            now, (restarts_max, period), times = index * soak.EVERY_SECONDS, limit_of[blow.process], recent[blow.process]
            while times and now - times[0] > period:
                times.popleft()
            assert len(times) < restarts_max, (seed, index, blow)
            times.append(now)


def test_the_slope_is_that_of_the_line_and_knows_how_sure_it_is():
    exact = memory.slope([(x, 3 + 0.5 * x) for x in range(10)])
    assert (exact.value, exact.low, exact.high) == (pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5))
    dice = random.Random(3)
    noisy = memory.slope([(x / 60, 300 + 0.1 * x / 60 + dice.gauss(0, 2)) for x in range(1800)])
    assert noisy.low < 0.1 < noisy.high and noisy.high - noisy.low < 0.1
    assert memory.slope([(1, 2), (2, 3)]) is None and memory.slope([(1, 2)] * 5) is None and memory.slope([]) is None


def samples(mb_a_minute, seconds=600):
    """A cluster that fills its caches for the first minute, then grows at its head."""
    for t in range(seconds):
        yield t, {"root": 20e6, "head": 100e6 + min(t, 60) * 1e6 + mb_a_minute * t / 60 * 1e6}


def test_growth_is_judged_by_all_processes_together_after_the_warm_up():
    rows = {r.row: r for r in soak.growth(list(samples(0.05)))}
    assert rows["soak.growth"].ok and rows["soak.growth"].value == pytest.approx(0.05, rel=1e-3)
    assert rows["soak.growth.head"].value == pytest.approx(0.05, rel=1e-3) and rows["soak.growth.root"].value == pytest.approx(0)
    assert rows["soak.memory"].value == pytest.approx(180.3, abs=0.1)
    assert not {r.row: r for r in soak.growth(list(samples(0.2)))}["soak.growth"].ok
    assert not soak.growth([(0, {"root": 1}), (1, {"root": 1})])[0].ok


def test_a_process_is_known_by_its_command_line():
    assert memory.role_of(b"baton\0shard\0--config\0/run/nodes.toml\0") == "shard"
    assert memory.role_of(b"build/release/cluster/cluster\0up\0nodes.toml\0") == "root"
    assert memory.role_of(b"") == "root"


def test_memory_counts_its_part_of_what_is_shared_and_no_kv():
    rollup = "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  9000 kB\nPss:  1000 kB\nPss_Anon:  500 kB\nPss_File:  100 kB\nPss_Shmem:  400 kB\n"
    assert memory.held(rollup) == 600 * 1024
    own = memory.by_role(os.getpid())
    assert own["root"] > 5e6 and own["shard"] == 0
