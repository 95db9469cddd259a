"""Metrics of handlers: names, kinds and bounds are checked in the handler, and new values are sent once."""

import sys
from pathlib import Path

import pytest

from baton_client import codec, inference
from baton_client.wire import HandlerMetrics
from baton_client.wire.MessageKind import MessageKind
from baton_worker import Context, MetricError, torchserve
from baton_worker.metrics import NAMES_MAX, SERIES_MAX, Metrics

MODELS = Path(__file__).parent / "models"


def updates_of(metrics):
    return {(t.name, *(v for _, v in t.labels)): (t.sets, t.value) for t in metrics.take()}


def test_a_change_is_sent_once():
    all_of_them = Metrics()
    words = all_of_them.counter("words", "Words.")
    words.labels(kind="short").increment()
    words.labels(kind="short").increment(2.5)
    depth = all_of_them.gauge("depth")
    depth.set(4)
    depth.increment(-1)
    assert updates_of(all_of_them) == {("words", "short"): (False, 3.5), ("depth",): (True, 3.0)}
    assert all_of_them.take() == []
    depth.increment(-1)
    words.labels(kind="short").increment()
    assert updates_of(all_of_them) == {("words", "short"): (False, 1.0), ("depth",): (False, -1.0)}
    assert all_of_them.counter("words").labels(kind="short").value == 4.5
    all_of_them.report_again()  # for a new gateway: gauges keep their value, counters start again
    assert updates_of(all_of_them) == {("words", "short"): (False, 0.0), ("depth",): (True, 2.0)}


def test_lost_updates_are_sent_again_with_later_changes():
    all_of_them = Metrics()
    words, depth, level = all_of_them.counter("words"), all_of_them.gauge("depth"), all_of_them.gauge("level")
    words.increment(2)
    depth.set(4)
    level.increment(1)
    lost = all_of_them.take()
    words.increment()
    depth.increment(-1)
    level.set(7)
    all_of_them.put_back(lost)
    assert updates_of(all_of_them) == {("words",): (False, 3.0), ("depth",): (True, 3.0), ("level",): (True, 7.0)}
    assert all_of_them.take() == []
    words.increment()
    level.increment(1)
    all_of_them.put_back(all_of_them.take())
    all_of_them.put_back([])
    assert updates_of(all_of_them) == {("words",): (False, 1.0), ("level",): (False, 1.0)}


def test_a_counter_is_sent_before_the_first_count():
    all_of_them = Metrics()
    all_of_them.counter("errors").labels()
    assert updates_of(all_of_them) == {("errors",): (False, 0.0)}


@pytest.mark.parametrize("wrong, why", [
    (lambda m: m.counter("1st"), "cannot be called '1st'"),
    (lambda m: m.counter("a-b"), "cannot be called"),
    (lambda m: m.counter("x" * 300), "cannot be called"),
    (lambda m: m.gauge("nv_mine"), "the server's own"),
    (lambda m: m.gauge("tgi_mine"), "the server's own"),
    (lambda m: m.counter("http_requests_total"), "the server's own"),
    (lambda m: (m.counter("both"), m.gauge("both")), "is a counter, and cannot be a gauge"),
    (lambda m: m.counter("c").labels(__name="x"), "cannot have the label"),
    (lambda m: m.counter("c").of({"a b": "x"}), "cannot have the label"),
    (lambda m: m.counter("c").labels(a=1), "is a text of up to"),
    (lambda m: m.counter("c").labels(a="x" * 300), "is a text of up to"),
    (lambda m: m.counter("c").labels(a="\ud800"), "is a text of up to"),
    (lambda m: [m.counter("c").increment(1e308) for _ in range(2)], "takes finite numbers"),
    (lambda m: m.counter("c").of({f"l{i}": "" for i in range(33)}), "33 labels"),
    (lambda m: m.counter("c").increment(-1), "cannot go down"),
    (lambda m: m.counter("c").set(1), "cannot be set"),
    (lambda m: m.gauge("g").set(float("nan")), "takes finite numbers"),
    (lambda m: m.gauge("g").set("3"), "takes finite numbers"),
    (lambda m: [m.counter(f"c{i}") for i in range(NAMES_MAX + 1)], "one metric too many"),
    (lambda m: [m.counter("c").labels(i=str(i)) for i in range(SERIES_MAX + 1)], "one set of labels too many"),
    (lambda m: [m.counter("c").of({f"l{n}": f"{i:0256}" for n in range(32)}) for i in range(200)], "labels too many or too long"),
    (lambda m: [m.counter(f"c{i:0255}", "x" * 1024).of({f"l{n}": f"{i:0256}" for n in range(28)}) for i in range(NAMES_MAX)], "labels too many or too long"),
])
def test_an_invalid_metric_raises_in_the_handler(wrong, why):
    with pytest.raises(MetricError, match=why):
        wrong(Metrics())


def of_histogram(metrics, name):
    """(le or part, other labels) -> value"""
    rows = {}
    for t in metrics.take():
        labels = dict(t.labels)
        assert t.kind == "counter" and not t.sets and t.name.startswith(name + "_")
        rows[(labels.pop("le", None) or t.name.removeprefix(name + "_"), *labels.values())] = t.value
    return rows


def test_a_histogram_is_counters_of_what_is_up_to_its_bounds():
    all_of_them = Metrics()
    seconds = all_of_them.histogram("seconds", "Of an answer.", buckets=(0.1, 1, 10))
    assert all_of_them.histogram("seconds") is seconds
    one = seconds.labels(kind="short")
    assert of_histogram(all_of_them, "seconds") == {(le, "short"): 0 for le in ("0.1", "1.0", "10.0", "+Inf", "sum", "count")}
    for value in (0.1, 0.5, 20):
        one.observe(value)
    assert of_histogram(all_of_them, "seconds") == {("0.1", "short"): 1, ("1.0", "short"): 2, ("10.0", "short"): 2, ("+Inf", "short"): 3,
                                                    ("sum", "short"): 20.6, ("count", "short"): 3}
    one.observe(0)
    lost = all_of_them.take()
    one.observe(5)
    all_of_them.put_back(lost)
    assert of_histogram(all_of_them, "seconds") == {("0.1", "short"): 1, ("1.0", "short"): 1, ("10.0", "short"): 2, ("+Inf", "short"): 2,
                                                    ("sum", "short"): 5, ("count", "short"): 2}
    all_of_them.histogram("bare").observe(3)
    assert of_histogram(all_of_them, "bare")[("5.0",)] == 1


@pytest.mark.parametrize("wrong, why", [
    (lambda m: (m.counter("h"), m.histogram("h")), "is a counter, and cannot be a histogram"),
    (lambda m: (m.histogram("h"), m.gauge("h")), "is a histogram, and cannot be a gauge"),
    (lambda m: (m.gauge("h_sum"), m.histogram("h")), "is a gauge, and cannot be a counter"),
    (lambda m: m.histogram("h", buckets=()), "whose bounds ascend"),
    (lambda m: m.histogram("h", buckets=(1, 1)), "whose bounds ascend"),
    (lambda m: m.histogram("h", buckets=range(65)), "1 to 64 buckets"),
    (lambda m: m.histogram("h", buckets=("1",)), "takes finite numbers"),
    (lambda m: m.histogram("h").labels(le="1"), "cannot have the label 'le'"),
    (lambda m: (m.histogram("h").of({}, [1]), m.histogram("h").of({}, [2])), "has other buckets"),
    (lambda m: m.histogram("h").observe(-1), "takes what is 0 or more"),
    (lambda m: m.histogram("h").observe(float("nan")), "takes finite numbers"),
    (lambda m: [m.histogram("h").labels(i=str(i)) for i in range(SERIES_MAX)], "one set of labels too many"),
])
def test_an_invalid_histogram_raises_in_the_handler(wrong, why):
    metrics = Metrics()
    with pytest.raises(MetricError, match=why):
        wrong(metrics)


def test_the_histograms_of_torchserve_handlers(of_torchserve):
    from ts.metrics.metric_type_enum import MetricTypes

    kept, metrics = of_torchserve
    metrics.add_metric("Spread", 0.3, "s", metric_type=MetricTypes.HISTOGRAM)
    metrics.get_metric("Spread", MetricTypes.HISTOGRAM).add_or_update(30, ["m", "Model"])
    metrics.add_time("Took", 7, unit="s", metric_type=MetricTypes.HISTOGRAM)
    rows = rows_of(kept)
    model = ("Level=Model", "ModelName=m")
    assert rows["Spread_bucket", "counter", (*model, "le=0.25")] == 0 and rows["Spread_bucket", "counter", (*model, "le=0.5")] == 1
    assert rows["Spread_bucket", "counter", (*model, "le=+Inf")] == 2 == rows["Spread_count", "counter", model]
    assert rows["Spread_sum", "counter", model] == 30.3 and rows["Took_sum", "counter", model] == 7


def test_histograms_of_a_metrics_yaml_are_found_by_handlers(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    config = tmp_path / "metrics.yaml"
    config.write_text("""
dimensions:
  - &model_name "ModelName"
model_metrics:
  counter:
    - {name: Answers, unit: count, dimensions: [*model_name]}
  gauge:
    - {name: Depth, unit: count, dimensions: []}
  histogram:
    - {name: Seconds, unit: s, dimensions: [*model_name]}
""")

    def handler_of(file):
        context = Context(model="m", version="1", name="w", batch_size=1, door="", options=[str(MODELS / "ts_class_handler.py")])
        monkeypatch.setenv("TS_METRICS_CONFIG", str(file))
        handler = torchserve.make(context)
        handler.initialize(context)
        return context.metrics, handler._context.metrics

    try:
        kept, metrics = handler_of(config)
        types = sys.modules["ts.metrics.metric_type_enum"].MetricTypes
        metrics.get_metric("Answers").add_or_update(1, ["m"])
        metrics.get_metric("Depth", types.GAUGE).add_or_update(4)
        metrics.get_metric("Seconds", types.HISTOGRAM).add_or_update(2, ["m"])
        rows = rows_of(kept)
        assert rows["Answers", "counter", ("ModelName=m",)] == 1 and rows["Depth", "gauge", ()] == 4
        assert rows["Seconds_sum", "counter", ("ModelName=m",)] == 2
        config.write_text("model_metrics: {summary: [{name: a, unit: b, dimensions: []}]}")
        with pytest.raises(ValueError, match="a metric needs name, unit and dimensions"):
            handler_of(config)
    finally:
        for name in [n for n in sys.modules if n == "ts" or n.startswith("ts.")]:
            del sys.modules[name]


def test_metrics_on_the_wire():
    all_of_them = Metrics()
    all_of_them.gauge("depth", "How deep.").labels(of="sea").set(2.5)
    body = inference.handler_metrics(all_of_them.take())
    assert body[4:8] == b"BT%02d" % MessageKind.handler_metrics
    one = HandlerMetrics.HandlerMetrics.GetRootAs(body, 0).All(0)
    assert (one.Name(), one.Help(), one.Kind(), one.Sets(), one.Value()) == (b"depth", b"How deep.", 2, True, 2.5)
    assert (one.Labels(0).Name(), one.Labels(0).Value()) == (b"of", b"sea")
    assert codec.pack(codec.envelope(MessageKind.handler_metrics, *2 * [codec.Address(1, 2, 8)], 0, 1), body)


@pytest.fixture
def of_torchserve():
    context = Context(model="m", version="1", name="w", batch_size=1, door="", options=[str(MODELS / "ts_class_handler.py")])
    handler = torchserve.make(context)
    handler.initialize(context)
    yield context.metrics, handler._context.metrics
    for name in [n for n in sys.modules if n == "ts" or n.startswith("ts.")]:
        del sys.modules[name]


def rows_of(kept):
    return {(t.name, t.kind, tuple(f"{n}={v}" for n, v in t.labels if n != "Hostname")): t.value for t in kept.take()}


def test_the_metrics_of_torchserve_handlers(of_torchserve):
    from ts.metrics.dimension import Dimension
    from ts.metrics.metric_type_enum import MetricTypes

    kept, metrics = of_torchserve
    given = [Dimension("Language", "en")]
    metrics.add_counter("Words", 3)
    metrics.add_counter(name="Words", value=2, idx=None, dimensions=given)
    metrics.add_counter("Words", 1, None, [Dimension("ModelName", "other"), Dimension("Level", "Mine")])
    metrics.add_time(name="Took", value=12.5, idx=0, unit="ms")
    metrics.add_size(name="Size", value=3, unit="kB")
    metrics.add_percent(name="Load", value=50)
    metrics.add_error(name="Failed", value=1)
    metrics.add_error("Failed", 2, given)
    metrics.add_metric(name="Cows", value=2, unit="cows")
    metrics.add_gauge(name="Heads", value=2)
    tail = metrics.add_metric_to_cache(metric_name="Tails", unit="count", dimension_names=["Of"], metric_type=MetricTypes.GAUGE)
    tail.add_or_update(4, ["cow"])
    metrics.get_metric(metric_name="Tails", metric_type=MetricTypes.GAUGE).add_or_update(5, ["cow"])
    metrics.get_metric("Cows").add_or_update(1, ["m", "Model"])  # add_metric has made it
    metrics.get_metric("Took", MetricTypes.GAUGE).update(13, dimensions=given)
    model = ("Level=Model", "ModelName=m")
    assert rows_of(kept) == {
        ("Words", "counter", model): 3, ("Words", "counter", ("Language=en", *model)): 2, ("Words", "counter", ("Level=Mine", "ModelName=other")): 1,
        ("Took", "gauge", model): 12.5, ("Took", "gauge", ("Language=en",)): 13, ("Size", "gauge", model): 3, ("Load", "gauge", model): 50,
        ("Failed", "counter", ("Level=Error",)): 1, ("Failed", "counter", ("Language=en", "Level=Error")): 2,
        ("Cows", "counter", model): 3, ("Heads", "gauge", model): 2, ("Tails", "gauge", ("Of=cow",)): 5,
    }
    assert [d.name for d in given] == ["Language"]
    for wrong, why in ((lambda: metrics.add_time("Took", 1, unit="h"), "cannot have the unit 'h'"),
                       (lambda: metrics.get_metric("Nothing"), "no counter 'Nothing'"),
                       (lambda: metrics.get_metric("Cows", MetricTypes.GAUGE), "no gauge 'Cows'")):
        with pytest.raises(MetricError, match=why):
            wrong()


def test_what_torchserve_handlers_count_in_vain_costs_no_batch(of_torchserve, caplog):
    from ts.metrics.dimension import Dimension
    from ts.metrics.metric_type_enum import MetricTypes

    kept, metrics = of_torchserve
    metrics.add_counter("Words", 1)
    tail = metrics.add_metric_to_cache("Tails", "count", ["Of"])
    for _ in range(2):  # said once
        metrics.add_counter("two words", 1)
        metrics.add_counter("Dashed", 1, dimensions=[Dimension("Model-Name", "m")])
        metrics.add_counter("Long", 1, dimensions=[Dimension("Text", "x" * 300)])
        metrics.add_counter("Down", -1)
        metrics.add_percent("Words", 1)
        metrics.add_metric("Spread", -1, "x", metric_type=MetricTypes.HISTOGRAM)
        metrics.get_metric("Spread", MetricTypes.HISTOGRAM).add_or_update(-1, ["m", "Model"])
        metrics.add_metric_to_cache("three more words", "count").add_or_update(1)
        tail.add_or_update(1, [])
    for user in range(SERIES_MAX + 10):
        metrics.add_counter("Seen", 1, dimensions=[Dimension("User", user)])
    for name in range(NAMES_MAX + 10):
        metrics.add_counter(f"N{name}", 1)
    for name in ("two words", "Dashed", "Long", "Down", "Words", "Spread", "three more words", "Tails", "Seen"):
        assert [r.levelname for r in caplog.records if r.getMessage().startswith(f"the metric '{name}' is not told: ")] == ["WARNING"], name
    assert len(caplog.records) <= 64
    rows = rows_of(kept)
    assert rows["Words", "counter", ("Level=Model", "ModelName=m")] == 1
    assert sum(1 for name, *_ in rows if name == "Seen") == SERIES_MAX - 2 - 17  # of Spread: 14 buckets, +Inf, the sum and the count
    assert {name for name, *_ in rows} == {"Words", "Seen", "Down", "Spread_bucket", "Spread_sum", "Spread_count"}
    assert not any(value for (name, *_), value in rows.items() if name.startswith("Spread"))


def test_the_metrics_of_triton_models():
    pytest.importorskip("numpy")
    from baton_worker import triton

    triton._context = Context(model="m", version="1", name="w", batch_size=1, door="")
    family = triton.MetricFamily(name="latency_ns", description="Latency.", kind=triton.MetricFamily.COUNTER)
    one = family.Metric(labels={"model": "m", "version": "1"})
    one.increment(2)
    level = triton.MetricFamily("level", "Level.", triton.MetricFamily.GAUGE).Metric()
    level.set(7)
    level.increment(-1)
    assert (one.value(), level.value()) == (2, 6)
    assert updates_of(triton._context.metrics) == {("latency_ns", "m", "1"): (False, 2.0), ("level",): (True, 6.0)}
    for wrong, why in ((lambda: one.set(1), "cannot be set"), (lambda: one.increment(-1), "cannot go down"),
                       (lambda: triton.MetricFamily("h", "", "summary"), "cannot be a summary"),
                       (lambda: family.Metric({}, buckets=[1]), "has no buckets"), (lambda: one.observe(1), "only a histogram"),
                       (lambda: triton.MetricFamily("level", "", triton.MetricFamily.COUNTER), "is a gauge"),
                       (lambda: triton.MetricFamily("nv_x", "", triton.MetricFamily.COUNTER), "the server's own"),
                       (lambda: family.Metric(labels={"a-b": "c"}), "cannot have the label")):
        with pytest.raises(triton.TritonModelException, match=why):
            wrong()


def test_the_histograms_of_triton_models():
    pytest.importorskip("numpy")
    from baton_worker import triton

    triton._context = Context(model="m", version="1", name="w", batch_size=1, door="")
    family = triton.MetricFamily(name="latency_s", description="Latency.", kind=triton.MetricFamily.HISTOGRAM)
    one = family.Metric(labels={"model": "m"}, buckets=[0.1, 1.0])
    one.observe(0.5)
    one.observe(3)
    assert of_histogram(triton._context.metrics, "latency_s") == {("0.1", "m"): 0, ("1.0", "m"): 1, ("+Inf", "m"): 2, ("sum", "m"): 3.5, ("count", "m"): 2}
    for wrong, why in ((lambda: family.Metric({}), "needs buckets"), (lambda: family.Metric({}, buckets=[2, 1]), "bounds ascend"),
                       (lambda: one.increment(1), "cannot be incremented"), (lambda: one.set(1), "cannot be set"), (lambda: one.value(), "cannot be read"),
                       (lambda: one.observe(-1), "0 or more")):
        with pytest.raises(triton.TritonModelException, match=why):
            wrong()
