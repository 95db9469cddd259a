"""Our tokenizer beside Hugging Face's `tokenizers` on one core, with the vocabulary of the same file; and hostile texts.

Called by run.py. Both give the same ids, or there is no ratio. Times are of processor time: one thread, nothing to wait for.
"""
import json
import pathlib
import tempfile

import report
from sections import texts
from servers import ROOT
from settings import ToolFailed, json_lines, run_tool, say

PYTHON = ROOT / ".venv" / "bin" / "python"  # has the library: tests/system/requirements.txt
PEER = pathlib.Path(__file__).resolve().parents[1] / "hf_tokenizer.py"
RATIO_BAR = 10
GROWTH_BAR = 1.3  # time of 10 MB in one text by that in ten texts
CHARACTERS = 400_000
CHARACTERS_QUICK = 40_000
TOOL_SECONDS_MAX = 300


def ours(bench, model, texts_file, ids_file):
    return json.loads(run_tool([bench, model, "texts", texts_file, ids_file], TOOL_SECONDS_MAX))


def theirs(vocabulary_file, texts_file, ids_file):
    return json.loads(run_tool([PYTHON, PEER, vocabulary_file, texts_file, ids_file], TOOL_SECONDS_MAX))


def write_vocabulary(bench, model, path):
    path.write_text(run_tool([bench, model, "vocabulary"], TOOL_SECONDS_MAX), encoding="utf-8")


def write_texts(kind, characters, path):
    path.write_bytes(b"".join(text.encode() + b"\0" for text in texts.documents(texts.KINDS[kind](characters))))


def one_turn(settings, directory, kind):
    """-> {side: MB/s} of both sides over one kind of text. Raises ToolFailed if their ids differ."""
    texts_file, ids = directory / kind, {side: directory / f"{kind}.{side}" for side in ("baton", "hf")}
    with settings.watch("tokenizer"):
        results = {"baton": ours(settings.tokenizer_bench, settings.model, texts_file, ids["baton"]),
                   "hf": theirs(directory / "vocabulary", texts_file, ids["hf"])}
    if ids["baton"].read_bytes() != ids["hf"].read_bytes():
        raise ToolFailed(f"the two tokenizers give different ids for {kind}")
    return {side: one["bytes"] / one["seconds"] / 1e6 for side, one in results.items()}


def speed_rows(settings, directory):
    write_vocabulary(settings.tokenizer_bench, settings.model, directory / "vocabulary")
    made = []
    for kind in texts.KINDS:
        write_texts(kind, CHARACTERS_QUICK if settings.is_quick else CHARACTERS, directory / kind)
        name = f"tokenizer.baton/hf.{kind}"
        say(f"tokenizer: {kind}")
        try:
            turns = [one_turn(settings, directory, kind) for _ in range(settings.rounds)]
        except ToolFailed as error:
            made.append(report.missing(name, str(error), "x", RATIO_BAR))
            continue
        by_side = {side: [turn[side] for turn in turns] for side in ("baton", "hf")}
        made += [report.median_row(f"tokenizer.{side}.{kind}", values, "MB/s") for side, values in by_side.items()]
        made.append(report.ratio_row(name, by_side["baton"], by_side["hf"], RATIO_BAR))
    return made


def growth_rows(settings):
    """For each hostile text: the time of 10 MB in one piece relative to ten of 1 MB, and the speed of the long one."""
    say("tokenizer: hostile texts")
    with settings.watch("tokenizer"):
        found = json_lines(run_tool([settings.tokenizer_bench, settings.model, "worst"], TOOL_SECONDS_MAX))
    made = []
    for one in found:
        made += [report.judged(f"tokenizer.worst.{one['text']}", 10 / one["seconds_10_mb"], "MB/s"),
                 report.judged(f"tokenizer.growth.{one['text']}", one["seconds_10_mb"] / one["seconds_10_of_1_mb"], "x", GROWTH_BAR,
                               lower_is_better=True)]
    return made


def rows(settings):
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as directory:
        return speed_rows(settings, pathlib.Path(directory)) + growth_rows(settings)
