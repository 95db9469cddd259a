"""The effect on streams of a node that comes and goes. Called by growth.py."""
import random
import statistics
import time

import fault_client
import servers
from sections.tally import Tally, gap, of_texts
from settings import say

STREAMS = 16
TOKENS = 96
CYCLES = 20  # of a node that comes and goes again
PAUSE_BAR = 0.5  # s, p99
MOVED_SECONDS_MAX = 60
WAITING_NODE = """
[[nodes]]
name = "b"
devices = ["{device}"]
waits = true
"""


def move(server, command, texts, dice, tally):
    """All streams, the order at a random moment of theirs, and the longest wait of each beyond its usual step."""
    clients = fault_client.started(server.port, STREAMS, TOKENS)
    for client in clients:
        client.begun.wait(MOVED_SECONDS_MAX)
    time.sleep(dice.random() * 0.5)
    ordered = time.monotonic()
    server.command_done(command, "b", seconds_max=MOVED_SECONDS_MAX)
    for client in clients:
        client.join(MOVED_SECONDS_MAX)
    step = statistics.median([b - a for c in clients for a, b in zip(c.stamps, c.stamps[1:])] or [0])
    tally.injections += 1
    for client, text in zip(clients, texts):
        tally.add(client, text)
        if (waited := client.gap_after(ordered)) is not None:
            tally.gaps.append(max(0.0, waited - step))


def join(settings):
    """The gaps hold all of a move: shards that load beside those that serve, and the switch."""
    devices = servers.core_devices(2)[0]
    tally, dice = Tally(), random.Random(1)
    with servers.Cluster(settings.cluster, settings.model, devices[:1], more=WAITING_NODE.format(device=devices[1])) as server:
        clients = fault_client.started(server.port, STREAMS, TOKENS)
        for client in clients:
            client.join(MOVED_SECONDS_MAX)
        texts = [c.text for c in clients]
        for cycle in range(2 if settings.is_quick else CYCLES):
            say(f"growth: cycle {cycle + 1}")
            for command in ("add-node", "drain"):
                move(server, command, texts, dice, tally)
    return [gap("growth.join", tally, 50, None), gap("growth.join", tally, 99, PAUSE_BAR), *of_texts("growth.join", tally)]
