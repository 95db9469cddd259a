"""The CPU engine in process, by engine_bench, beside llama-bench and llama-batched-bench on the same file and threads.

Called by run.py. Also: the same over tensor types (`type_rows`), HTTP beside the engine in process (`door_rows`), and the machine's memory bandwidth.
"""
import json
import statistics

import machine
import peer_llama
import report
import servers
from sections import served
from settings import ToolFailed, json_lines, run_tool, say

BATCHES = (1, 8, 32)
PROMPT_TOKENS = 512
PREFILL_KEY = f"prefill_{PROMPT_TOKENS}"
POSITIONS = (96, 128)  # of each decoding sequence; engine_bench starts at 96
TYPES_POSITIONS = (96, 112)  # if three more files are measured
TOOL_ROUNDS = 1  # within one run of a tool: the rounds are those around it
# Ratios to reach against llama.cpp: prompt, batch 1, 8 and 32. It has repacked kernels for Q4_0 alone. llama.cpp's activations have 8
# bits, ours 16 by default: both are measured.
RATIO_BARS = {"Q4_1": (6, 2.3, 7, 5.5), "Q4_0": (2.2, 2.0, 4, 2.8), "Q8_0": (3.3, 1.6, 5.5, 4), "BF16": (1.8, 1.0, 2.5, 2.5)}
BANDWIDTH_BARS = {"Q4_1": 0.80, "BF16": 0.85}  # batch 1: bytes of weights read in a second, of what the threads can read
FLOAT_TYPES = ("F32", "F16", "BF16")
DOOR_BAR = 0.9
DOOR_STREAMS = 8
DOOR_TOKENS = 96  # so that the window in which all streams decode lies near the positions of engine_bench
DOOR_LOADS = 3  # on one server, whose median counts
DOOR_ROUNDS = 3  # in process, whose median counts
DOOR_STEPS = 64  # in process, as many as the window has through HTTP
TOOL_SECONDS_MAX = 600


def rate_key(batch):
    return f"batch_{batch}"


def ours(settings, rounds=TOOL_ROUNDS, prompt=PROMPT_TOKENS, batches=BATCHES, model=None, steps=POSITIONS[1] - POSITIONS[0], bits=16):
    """-> {"prefill_512": tokens/s, "batch_1": ..., "memory_read": GB/s, "weights": MB, "prompt_ceiling" and "decoded_ceiling":
    tokens/s, where the processor's rate is known} of one run of engine_bench; `prompt` 0: no prefill; `bits`: of the
    activations. KV lies in a file of memory, as a shard's does."""
    with settings.watch("engine_bench"):
        output = run_tool([settings.engine_bench, "--json", "--model", model or settings.model, "--threads", settings.threads, "--rounds", rounds,
                           "--prompt", prompt, "--batches", ",".join(map(str, batches)), "--steps", steps, "--bits", bits, "--shared-kv"], TOOL_SECONDS_MAX)
    threads = f", {settings.threads} threads"
    names = {f"memory read{threads}": "memory_read", "packed weights": "weights", f"ceiling of prompts{threads}": "prompt_ceiling",
             f"ceiling of decoding{threads}": "decoded_ceiling", **{f"decode batch {batch}{threads}": rate_key(batch) for batch in batches}}
    if prompt:
        names[f"prefill {prompt}{threads}"] = PREFILL_KEY
    found = {names[fields["row"]]: fields["value"] for fields in json_lines(output) if fields["row"] in names}
    if absent := set(names.values()) - set(found) - {"prompt_ceiling", "decoded_ceiling"}:
        raise ToolFailed(f"engine_bench printed no {', '.join(sorted(absent))}")
    return found


def llama(settings, model, positions):
    """The same speeds of llama.cpp, over the same positions. Its own warm-up is on. Its sequences get copies of one prompt, which is not timed."""
    if not settings.peer_bin:
        raise ToolFailed(settings.peer_reason)
    common = ["-m", model, "-t", settings.threads]
    begin, end = positions
    with settings.watch("llama-bench"):
        prompt = json.loads(run_tool([settings.peer_bin / "llama-bench", *common, "-p", PROMPT_TOKENS, "-n", 0, "-r", TOOL_ROUNDS,
                                      "-o", "json"], TOOL_SECONDS_MAX))
        batched = run_tool([settings.peer_bin / "llama-batched-bench", *common, "-tb", settings.threads, "-c", end * max(BATCHES),
                            "-b", 2048, "-ub", 512, "-npp", begin, "-pps", "-ntg", end - begin, "-npl", ",".join(map(str, BATCHES)),
                            "--output-format", "jsonl"], TOOL_SECONDS_MAX)
    rates = {rate_key(fields["pl"]): fields["speed_tg"] for fields in json_lines(batched)}
    return {PREFILL_KEY: prompt[0]["avg_ts"], **rates}


def rows(settings):
    return beside_llama(settings, "engine", settings.model, peer_llama.own_type(settings.model), POSITIONS)


def type_rows(settings):
    """The model's weights in other types, quantised again from its file: their quality is not that of a file made for them."""
    made = []
    for kind in peer_llama.OTHER_TYPES:
        try:
            model = peer_llama.in_type(settings.model, kind)
        except peer_llama.PeerMissing as error:
            made.append(report.missing(f"types.{kind}", str(error)))
            continue
        made += beside_llama(settings, f"types.{kind}", model, kind, TYPES_POSITIONS)
    return made


def sides_of(settings, model, kind, positions):
    """{name: its function}. The width of activations matters if weights are quantised."""
    steps = positions[1] - positions[0]
    sides = {"baton": lambda: ours(settings, model=model, steps=steps), "llama": lambda: llama(settings, model, positions)}
    if kind not in FLOAT_TYPES:
        sides["baton_8bit"] = lambda: ours(settings, model=model, steps=steps, bits=8)
    return sides


def share_of_bandwidth(run):
    """Share of the memory bandwidth measured in the same run: each token reads all weights once. None if the run failed."""
    return run["batch_1"] * run["weights"] / 1e3 / run["memory_read"] if run else None


def ceiling(run, key):
    """Tokens/s of that key if this processor only multiplied and added at the activations' width and scaled the blocks of weights. Uses
    the rates measured in the same run (product_ceiling.hpp). None without such instructions, or if the run failed."""
    return run.get("prompt_ceiling" if key == PREFILL_KEY else "decoded_ceiling")


def ceiling_rows(section, name, results, key):
    """The share of its ceiling that each side reaches, and the ceiling relative to llama.cpp: a higher bar cannot be met."""
    ceilings = [ceiling(one, key) for one in results[name]]
    if not any(ceilings):
        return []
    return [report.ratio_row(f"{section}.{name}/ceiling.{key}", [one.get(key) for one in results[name]], ceilings),
            report.ratio_row(f"{section}.{name}_ceiling/llama.{key}", ceilings, [one.get(key) for one in results["llama"]])]


def beside_llama(settings, section, model, kind, positions):
    """Interleaved rounds of both engines on one file of this type. A type without bars is for information."""
    sides, bars = sides_of(settings, model, kind, positions), RATIO_BARS.get(kind)
    results, failures = {name: [] for name in sides}, {}
    for round_index in range(settings.rounds):
        say(f"{section}: round {round_index + 1} of {settings.rounds}")
        for name in sorted(sides, reverse=round_index % 2 == 1):
            try:
                results[name].append(sides[name]())
            except ToolFailed as error:
                results[name].append({})
                failures[name] = str(error)
    made = [report.missing(f"{section}.{name}", reason) for name, reason in failures.items()]
    for key, bar in zip((PREFILL_KEY, *map(rate_key, BATCHES)), bars or [None] * (1 + len(BATCHES))):
        by_side = {name: [one.get(key) for one in results[name]] for name in sides}
        made += [report.median_row(f"{section}.{name}.{key}", by_side[name], "tokens/s") for name in sides if name not in failures]
        made += [report.ratio_row(f"{section}.{name}/llama.{key}", by_side[name], by_side["llama"], bar) for name in sides if name != "llama"]
        if key != rate_key(1):  # one row waits for memory
            made += [row for name in sides if name != "llama" for row in ceiling_rows(section, name, results, key)]
    shares = [share_of_bandwidth(one) for one in results["baton"]]
    return [*made, report.median_row(f"{section}.baton.batch_1.bandwidth", shares, "share", BANDWIDTH_BARS.get(kind))]


def burst_rate(run, streams, load):
    """The tokens/s of a load if the engine only computed its prompts and then its tokens, `streams` at a time."""
    prompts, tokens = load["prompt_tokens"], load["completion_tokens"]
    return tokens / (prompts / run[PREFILL_KEY] + tokens / run[rate_key(streams)])


def served_rows(settings):
    """`served`, and the engine's own rate at the largest load, which bounds every server that uses it."""
    results, rows_made = served.results_and_rows(settings)
    streams = max(served.STREAMS)
    alone = []
    try:
        for round_index, load in enumerate(results["baton", streams]):
            say(f"served: round {round_index + 1} of {settings.rounds}, the engine alone")
            alone.append(burst_rate(ours(settings, batches=[streams], steps=served.MAX_TOKENS), streams, load) if load else None)
    except ToolFailed as error:
        return [*rows_made, report.missing(f"served.in_process.{streams}", str(error), "tokens/s")]
    return [*rows_made, report.median_row(f"served.in_process.{streams}", alone, "tokens/s"),
            report.ratio_row(f"served.baton/in_process.{streams}", served.values(results, "baton", streams, "tok_s"), alone),
            report.ratio_row(f"served.in_process/llama.{streams}", alone, served.values(results, "llama", streams, "tok_s"))]


def through_http(settings, round_index):
    """(tokens/s of the windows in which all streams decode, {role: cores it used then}), each the median of a few loads on one server."""
    _, one_stage = servers.core_devices(settings.threads)
    rates, used = [], []
    with servers.Cluster(settings.cluster, settings.model, one_stage) as server:
        for i in range(DOOR_LOADS):
            with machine.RoleTimes(server.process.pid) as times:
                one = served.one_load(settings, server, DOOR_STREAMS, round_index * DOOR_LOADS + i, max_tokens=DOOR_TOKENS, requests=DOOR_STREAMS)
            if one["steady_window"]:
                rates.append(one["steady_tok_s"])
                used.append(times.cores(*one["steady_window"]))
    if not rates:
        raise servers.ServerFailed("there was no time in which all streams decoded")
    return statistics.median(rates), {role: statistics.median(one.get(role, 0.0) for one in used) for role in used[0]}


def door_round(settings, round_index):
    """-> (tokens/s through HTTP, in process, {role: cores}): the engine alone is measured before and after, so that a drift meets both sides."""
    def alone():
        return ours(settings, DOOR_ROUNDS, prompt=0, batches=[DOOR_STREAMS], steps=DOOR_STEPS)[rate_key(DOOR_STREAMS)]

    before = alone()
    http, used = through_http(settings, round_index)
    return http, (before + alone()) / 2, used


def door_rows(settings):
    """8 decoding streams through HTTP beside batch 8 in process: one stage, the same threads."""
    name = f"door.http/in_process.{DOOR_STREAMS}"
    made = []
    for round_index in range(settings.rounds):
        say(f"door: round {round_index + 1} of {settings.rounds}")
        try:
            made.append(settings.undisturbed(lambda index=round_index: door_round(settings, index)))
        except (servers.ServerFailed, ToolFailed) as error:
            return [report.missing(name, str(error), "x", DOOR_BAR)]
    http, in_process, used = zip(*made)
    return [report.median_row(f"door.http.{DOOR_STREAMS}", http, "tokens/s"),
            report.median_row(f"door.in_process.{DOOR_STREAMS}", in_process, "tokens/s"), report.ratio_row(name, http, in_process, DOOR_BAR),
            *core_rows(settings, used)]


def core_rows(settings, used):
    """The share of the shard's cores used by all other processes, and the upper bound that this leaves to the shard."""
    beside = [role for role in used[0] if role != "shard" and any(one[role] >= 0.005 for one in used)]
    rows = [report.median_row(f"door.cores.{role}", [one[role] for one in used], "cores") for role in beside]
    left = [1 - sum(one[role] for role in beside) / settings.threads for one in used]
    return [*rows, report.median_row("door.http/in_process.ceiling", left, "x")]


def bandwidth(settings):
    """GB/s that all threads together can read, or the reason why it is not known."""
    try:
        return ours(settings, prompt=0, batches=[1])["memory_read"]
    except ToolFailed as error:
        return str(error)


def bandwidth_rows(before, after):
    rows_made = []
    for when, value in (("before", before), ("after", after)):
        name = f"machine.memory_read.{when}"
        is_known = isinstance(value, (int, float))
        rows_made.append(report.judged(name, value, "GB/s") if is_known else report.missing(name, str(value), "GB/s"))
    return rows_made
