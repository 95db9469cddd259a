"""Tensor parallelism beside one shard with as many cores as each of its ranks, and the sums between ranks. Called by growth.py."""
import pipeline
import report
import servers
from settings import ToolFailed, json_lines, run_tool, say

RANKS = 2
TENSOR_BAR = 1.7  # for prefill, and for decoding at these batches
BATCHES = (8, 32)
PROMPT_TOKENS = 512
STEPS = 32
ROW_MICROS_BAR = 2.0  # of one token's row between two processes, p50
MEGABYTE_BAR = 8.0  # GB/s
TOOL_SECONDS_MAX = 300
# Row of collective_bench -> (name here, bar, whether less is better)
SUMS = {"all-reduce of a row": ("all_reduce.row.p50", ROW_MICROS_BAR, True), "all-reduce of 1 MB": ("all_reduce.1mb", MEGABYTE_BAR, False),
        "a word to the other core and back": ("all_reduce.row.round_trip", None, True),
        "exchanged between the cores": ("all_reduce.1mb.ceiling", None, False)}


def sums(settings):
    """All-reduce between two processes on a core each, beside what the cores give one another in the same run."""
    values = {row: [] for row in SUMS}
    for _ in range(settings.rounds):
        with settings.watch("collective_bench"):
            for fields in json_lines(run_tool([settings.collective_bench], TOOL_SECONDS_MAX)):
                values[fields["row"]].append((fields["value"], fields["unit"]))
    made = []
    for row, (name, bar, lower_is_better) in SUMS.items():
        unit = values[row][0][1] if values[row] else ""
        made.append(report.median_row(f"growth.{name}", [value for value, _ in values[row]], unit, bar, lower_is_better))
    return made


def in_process(settings, ranks):
    """-> {"prefill": tokens/s, 8: ..., 32: ..., with several ranks "even": what speed-up their slices allow, in %} of engine_bench with one
    thread for each rank."""
    steps = 4 if settings.is_quick else STEPS
    with settings.watch("engine_bench"):
        output = run_tool([settings.engine_bench, "--json", "--model", settings.model, "--threads", 1, "--ranks", ranks, "--rounds", 1, "--prompt",
                           PROMPT_TOKENS, "--batches", ",".join(map(str, BATCHES)), "--steps", steps, "--shared-kv"], TOOL_SECONDS_MAX)
    names = {"weights of all / of the largest rank": "even", f"prefill {PROMPT_TOKENS}, 1 threads": "prefill", **{f"decode batch {b}, 1 threads": b for b in BATCHES}}
    found = {names[fields["row"]]: fields["value"] for fields in json_lines(output) if fields["row"] in names}
    if absent := set(names.values()) - set(found) - {"even"}:
        raise ToolFailed(f"engine_bench printed no {absent}")
    return found


def served(settings, ranks, seed):
    """The same through HTTP; client, head and gateway need some of the same cores."""
    with servers.Cluster(settings.cluster, settings.model, servers.core_devices(ranks)[0], ranks=ranks) as server:
        found = {"prefill": pipeline.prefill(settings, server, seed)}
        for batch in BATCHES:
            found[batch] = pipeline.decode(settings, server, batch, seed + 100 + batch)[0]
    return found


def tensor(settings):
    """So many ranks of one core each beside one shard of one core, in turns: engines in process, and whole clusters."""
    results = {(how, ranks): [] for how in ("engine", "served") for ranks in (RANKS, 1)}
    for round_index in range(settings.rounds):
        say(f"growth: round {round_index + 1} of {settings.rounds}")
        for ranks in sorted((RANKS, 1), reverse=round_index % 2 == 1):
            results["engine", ranks].append(in_process(settings, ranks))
            results["served", ranks].append(served(settings, ranks, round_index + 1))
    return judge(results)


def judge(results):
    made = []
    for how, key in ((how, key) for how in ("engine", "served") for key in ("prefill", *BATCHES)):
        what = key if key == "prefill" else f"batch_{key}"
        by_ranks = {ranks: [one[key] for one in results[how, ranks]] for ranks in (RANKS, 1)}
        made += [report.median_row(f"growth.tensor.{how}.{ranks}x1.{what}", values, "tokens/s") for ranks, values in by_ranks.items()]
        made.append(report.ratio_row(f"growth.tensor.{how}.{RANKS}x1/1x1.{what}", by_ranks[RANKS], by_ranks[1], TENSOR_BAR))
    even = [one["even"] / 100 for one in results["engine", RANKS] if "even" in one]
    return [*made, report.median_row(f"growth.tensor.{RANKS}x1/1x1.ceiling", even, "x")] if even else made

