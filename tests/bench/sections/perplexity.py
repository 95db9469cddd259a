"""Perplexity of our engine and of llama-perplexity: same file, same text, same tokens, for each tensor type.

Called by run.py. Both take the first chunks of 512 tokens, each on its own, and score the second half of each. A chunk's first token
becomes BOS if the model has one (the default model has none). No speed is measured, so one run is enough.
"""
import json
import re

import peer_llama
import report
from sections import texts
from settings import ToolFailed, run_tool, say

CHUNK_TOKENS, CHUNKS, CHUNKS_QUICK = 512, 2, 1
BITS = (16, 8)
RATIO_BAR = 1.005
TEXT = texts.LICENCES / "GPL-3"
TOOL_SECONDS_MAX = 300
ESTIMATE = re.compile(r"Final estimate: PPL = ([0-9.]+)")


def ours(settings, model, bits, chunks):
    with settings.watch("perplexity_bench"):
        return json.loads(run_tool([settings.perplexity_bench, model, TEXT, bits, settings.threads, chunks], TOOL_SECONDS_MAX))["perplexity"]


def estimate_in(output):
    found = ESTIMATE.search(output)
    if not found:
        raise ToolFailed("llama-perplexity printed no final estimate")
    return float(found[1])


def llama(settings, model, chunks):
    if not settings.peer_bin:
        raise ToolFailed(settings.peer_reason)
    with settings.watch("llama-perplexity"):
        return estimate_in(run_tool([settings.peer_bin / "llama-perplexity", "-m", model, "-f", TEXT, "-c", CHUNK_TOKENS, "--chunks", chunks,
                                     "-t", settings.threads, "-tb", settings.threads], TOOL_SECONDS_MAX, with_stderr=True))


def rows_of(settings, kind, model):
    say(f"perplexity: {kind}")
    chunks = CHUNKS_QUICK if settings.is_quick else CHUNKS
    try:
        peer = llama(settings, model, chunks)
        values = {bits: ours(settings, model, bits, chunks) for bits in BITS}
    except ToolFailed as error:
        return [report.missing(f"perplexity.{kind}", str(error))]
    made = [report.judged(f"perplexity.{kind}.llama", peer, "")]
    for bits, value in values.items():
        made += [report.judged(f"perplexity.{kind}.baton_{bits}_bits", value, ""),
                 report.judged(f"perplexity.{kind}.baton_{bits}_bits/llama", value / peer, "x", RATIO_BAR, lower_is_better=True)]
    return made


def rows(settings):
    made = []
    for kind in dict.fromkeys((peer_llama.own_type(settings.model), *peer_llama.OTHER_TYPES)):
        try:
            made += rows_of(settings, kind, peer_llama.in_type(settings.model, kind))
        except peer_llama.PeerMissing as error:
            made.append(report.missing(f"perplexity.{kind}", str(error)))
    return made
