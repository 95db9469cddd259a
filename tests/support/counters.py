"""Checks that the counters of /metrics never decrease."""

from prometheus_client.parser import text_string_to_metric_families


def counters(text):
    """-> {(name, labels): value} of counters and histograms. The parser appends `_total` to the name of every counter."""
    told = {}
    for family in text_string_to_metric_families(text):
        if family.type in ("counter", "histogram"):
            told.update({(s.name, tuple(sorted(s.labels.items()))): s.value for s in family.samples})
    return told


def fallen(before, after):
    """Returns the earlier values that are smaller or missing now."""
    return {key: (value, after.get(key)) for key, value in before.items() if after.get(key, -1) < value}
