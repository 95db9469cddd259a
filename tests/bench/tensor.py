"""Tensor parallelism beside one shard with as many cores as each of its ranks, and the sums between ranks. Called by growth.py."""
import pipeline
import report
import servers
from settings import ToolFailed, json_lines, run_tool, say

# Ranks, and the threads of each: the last has the cores of the first.
SHAPES = {"2x1": (2, 1), "1x1": (1, 1), "1x2": (1, 2)}
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


def in_process(settings, ranks, threads):
    """-> {"prefill": tokens/s, 8: ..., 32: ..., with several ranks "even": what speed-up their slices allow, in %} of engine_bench with so
    many threads for each rank."""
    steps = 4 if settings.is_quick else STEPS
    with settings.watch("engine_bench"):
        output = run_tool([settings.engine_bench, "--json", "--model", settings.model, "--threads", threads, "--ranks", ranks, "--rounds", 1, "--prompt",
                           PROMPT_TOKENS, "--batches", ",".join(map(str, BATCHES)), "--steps", steps, "--shared-kv"], TOOL_SECONDS_MAX)
    names = {"weights of all / of the largest rank": "even", f"prefill {PROMPT_TOKENS}, {threads} threads": "prefill",
             **{f"decode batch {b}, {threads} threads": b for b in BATCHES}}
    found = {names[fields["row"]]: fields["value"] for fields in json_lines(output) if fields["row"] in names}
    if absent := set(names.values()) - set(found) - {"even"}:
        raise ToolFailed(f"engine_bench printed no {absent}")
    return found


def served(settings, ranks, threads, seed):
    """The same through HTTP; client, head and gateway need some of the same cores."""
    each_core, together = servers.core_devices(ranks * threads)
    with servers.Cluster(settings.cluster, settings.model, together if threads > 1 else each_core, ranks=ranks) as server:
        found = {"prefill": pipeline.prefill(settings, server, seed)}
        for batch in BATCHES:
            found[batch] = pipeline.decode(settings, server, batch, seed + 100 + batch)[0]
    return found


def tensor(settings):
    """Two ranks of one core each beside one shard of one core, and of both, in turns: engines in process, and whole clusters."""
    results = {(how, shape): [] for how in ("engine", "served") for shape in SHAPES}
    for round_index in range(settings.rounds):
        say(f"growth: round {round_index + 1} of {settings.rounds}")
        for shape in sorted(SHAPES, reverse=round_index % 2 == 1):
            results["engine", shape].append(in_process(settings, *SHAPES[shape]))
            results["served", shape].append(served(settings, *SHAPES[shape], round_index + 1))
    return judge(results)


def judge(results):
    made = []
    for how, key in ((how, key) for how in ("engine", "served") for key in ("prefill", *BATCHES)):
        what = key if key == "prefill" else f"batch_{key}"
        rates = {shape: [one[key] for one in results[how, shape]] for shape in SHAPES}
        made += [report.median_row(f"growth.tensor.{how}.{shape}.{what}", values, "tokens/s") for shape, values in rates.items()]
        made.append(report.ratio_row(f"growth.tensor.{how}.2x1/1x1.{what}", rates["2x1"], rates["1x1"], TENSOR_BAR))
        made.append(report.ratio_row(f"growth.tensor.{how}.1x2/1x1.{what}", rates["1x2"], rates["1x1"]))
    even = [one["even"] / 100 for one in results["engine", "2x1"] if "even" in one]
    return [*made, report.median_row("growth.tensor.2x1/1x1.ceiling", even, "x")] if even else made
