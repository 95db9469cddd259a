"""Counters of /metrics, for tests of what they may not do."""

from prometheus_client.parser import text_string_to_metric_families


def counters(text):
    """Of counters and histograms: {(name, labels): value}. The parser has `_total` behind the name of every counter."""
    told = {}
    for family in text_string_to_metric_families(text):
        if family.type in ("counter", "histogram"):
            told.update({(s.name, tuple(sorted(s.labels.items()))): s.value for s in family.samples})
    return told


def fallen(before, after):
    """Of what was told before: what is less now, or not told any more."""
    return {key: (value, after.get(key)) for key, value in before.items() if after.get(key, -1) < value}
