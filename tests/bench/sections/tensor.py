"""Tensor parallelism beside one shard with as many cores as each of its ranks, and the sums between ranks. Called by growth.py."""
import report
import servers
from sections import pipeline
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
# The layers of Llama 3.2 1B, a smaller vocabulary, random weights: 8 KV heads, which two ranks share evenly.
LARGE_MODEL = {"layers": 16, "hidden": 2048, "heads": 32, "kv-heads": 8, "ffn": 8192, "vocab": 32768, "type": "Q4_1", "tied": 1, "never-ends": 0}
LARGE_STEPS = 4  # a step is eight times as long
# Row of collective_bench -> (name here, bar, whether less is better)
SUMS = {"all-reduce of a row": ("all_reduce.row.p50", ROW_MICROS_BAR, True), "all-reduce of 1 MB": ("all_reduce.1mb", MEGABYTE_BAR, False),
        "a word to the other core and back": ("all_reduce.row.round_trip", None, True),
        "exchanged between the cores": ("all_reduce.1mb.exchange", None, False)}


def sums(settings):
    """All-reduce between two processes on a core each, beside the bandwidth between these cores in the same run."""
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


def in_process(settings, ranks, threads, model=None, steps=STEPS):
    """-> {"prefill": tokens/s, 8: ..., 32: ..., with several ranks "even": what speed-up their slices allow, in %} of engine_bench with so
    many threads for each rank."""
    steps = min(steps, 4) if settings.is_quick else steps
    with settings.watch("engine_bench"):
        output = run_tool([settings.engine_bench, "--json", "--model", model or settings.model, "--threads", threads, "--ranks", ranks, "--rounds", 1, "--prompt",
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


def large(settings):
    """The same engines in process with a model whose heads divide evenly, and whose products take long compared with the reductions."""
    model = settings.build / "tensor_large.gguf"
    if not model.exists():
        say("growth: writing a model of 1 B random weights")
        written = model.with_suffix(".part")
        run_tool([settings.tiny_model, written, *(word for key, value in LARGE_MODEL.items() for word in (f"--{key}", value))], TOOL_SECONDS_MAX)
        written.rename(model)
    shapes = {name: shape for name, shape in SHAPES.items() if name != "1x2"}
    results = {shape: [] for shape in shapes}
    for round_index in range(settings.rounds):
        for shape in sorted(shapes, reverse=round_index % 2 == 1):
            results[shape].append(in_process(settings, *shapes[shape], model, LARGE_STEPS))
    return [*rows_of("growth.tensor_1b", results), *ceiling("growth.tensor_1b", results["2x1"])]


def rows_of(prefix, results):
    """From {shape: [in_process() of each round]}: rates, and the ratios to one shard of one core."""
    made = []
    for key in ("prefill", *BATCHES):
        what = key if key == "prefill" else f"batch_{key}"
        rates = {shape: [one[key] for one in rounds] for shape, rounds in results.items()}
        made += [report.median_row(f"{prefix}.{shape}.{what}", values, "tokens/s") for shape, values in rates.items()]
        made += [report.ratio_row(f"{prefix}.{shape}/1x1.{what}", values, rates["1x1"], *([TENSOR_BAR] if shape == "2x1" else []))
                 for shape, values in rates.items() if shape != "1x1"]
    return made


def ceiling(prefix, rounds):
    even = [one["even"] / 100 for one in rounds if "even" in one]
    return [report.median_row(f"{prefix}.2x1/1x1.ceiling", even, "x")] if even else []


def judge(results):
    made = [row for how in ("engine", "served") for row in rows_of(f"growth.tensor.{how}", {shape: results[how, shape] for shape in SHAPES})]
    return [*made, *ceiling("growth.tensor", results["engine", "2x1"])]
