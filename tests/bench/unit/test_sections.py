"""How the sections of the benches parse streams and the output of other programs: pytest tests/bench."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import load as loads  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import schema_judge  # noqa: E402
import servers  # noqa: E402
from sections import engine, interference, json_schemas, perplexity, pipeline, start, tensor  # noqa: E402
from settings import Settings, ToolFailed  # noqa: E402


def stream(*stamps):
    return loads.Stream(0, stamps=list(stamps))


def test_waits_are_those_that_touch_the_prefill_of_the_long_prompt():
    streams = [stream(1.0, 2.0, 3.0, 9.0, 9.5), stream(4.0, 5.0)]
    assert interference.waits_during(streams, begin=2.5, end=9.2) == [1000.0, 6000.0, 500.0, 1000.0]
    assert interference.waits_during(streams, begin=9.5, end=11.0) == []


def test_interference_is_judged_by_the_worst_waits_and_a_silent_side_is_a_missing_row():
    ours, theirs = {"itl_p50": 10.0, "itl_p99": 200.0, "ttft": 3.0}, {"itl_p50": 10.0, "itl_p99": 1000.0, "ttft": 9.0}
    rows = {row.row: row for row in interference.judge({"baton": [ours], "llama": [theirs]}, {})}
    assert (rows["interference.baton/llama.itl_p99"].value, rows["interference.baton/llama.itl_p99"].ok) == (0.2, True)
    assert rows["interference.baton/llama.itl_p50"].bar is None
    alone = {row.row: row for row in interference.judge({"baton": [ours]}, {"llama": "left out"})}
    assert not alone["interference.baton/llama.itl_p99"].ok and alone["interference.llama"].reason == "left out"


def test_the_estimate_of_llama_perplexity_is_its_last_line_and_nothing_else_will_do():
    assert perplexity.estimate_in("[1]15.2,[2]16.1,\nFinal estimate: PPL = 16.2581 +/- 0.61\n") == 16.2581
    with pytest.raises(ToolFailed):
        perplexity.estimate_in("[1]15.2,")


def test_the_share_of_waiting_is_read_from_metrics():
    text = '# TYPE baton_bubble_ratio gauge\nbaton_bubble_ratio{model_name="bench"} 0.0375\nbaton_steps_total{model_name="bench"} 9\n'
    assert pipeline.bubble_in(text) == 0.0375
    assert pipeline.bubble_in("") is None


def test_shares_of_an_interval_that_began_before_the_window_do_not_count():
    watch = pipeline.BubbleWatch(server=None)
    watch.samples = [(1.0, 0.9), (1.3, 0.8), (1.5, 0.02), (1.9, 0.04), (2.1, 0.5)]
    assert watch.between(1.0, 2.0) == [0.02, 0.04]


def test_the_engines_own_rate_for_a_burst():
    load = {"prompt_tokens": 1000, "completion_tokens": 600}
    assert engine.burst_rate({"prefill_512": 1000.0, "batch_32": 300.0}, 32, load) == pytest.approx(200)  # 1 s and 2 s


def test_the_balance_of_a_cut_is_that_of_compute_times():
    text = 'baton_stage_busy_seconds_total{model_name="m",stage="0"} 1.5\nbaton_stage_busy_seconds_total{model_name="m",stage="1"} 2\n'
    assert pipeline.busy_in(text) == [1.5, 2]
    assert pipeline.balance([1, 1], [2, 1.8]) == pytest.approx(0.9)
    assert pipeline.balance([], [2, 1.8]) == pytest.approx(0.95)  # nothing is reported before the first step
    assert pipeline.balance([1, 1], [1, 1]) is None and pipeline.balance([], []) is None


def test_stages_are_judged_beside_one_process():
    results = {"stages": [{"prefill": 96.0, 16: 80.0, 32: 95.0, "bubbles": [0.01, 0.03], "beside": 0.04, "balance": {"prefill": 0.94, 16: 0.98}}],
               "one": [{"prefill": 100.0, 16: 100.0, 32: 100.0, "bubbles": [], "beside": 0.2, "balance": {}}]}
    rows = {row.row: row for row in pipeline.judge(results, "2x1", "1x2")}
    assert [rows[f"pipeline.2x1/1x2.{what}"].ok for what in ("prefill", "decode.16", "decode.32")] == [True, False, True]
    assert rows["pipeline.2x1.bubble"].value == 0.02 and rows["pipeline.2x1.bubble"].ok and rows["pipeline.2x1.beside"].value == 0.04
    on_one_gpu = {row.row: row for row in pipeline.judge(results, "cuda:0+cuda:0", "cuda:0", dict.fromkeys(pipeline.BARS, pipeline.DEVICES_BAR))}
    assert {row.bar for name, row in on_one_gpu.items() if name.startswith("pipeline.cuda:0+cuda:0/cuda:0.")} == {0.9}
    assert rows["pipeline.2x1.prefill.balance"].value == 0.94 and not rows["pipeline.2x1.decode.32.balance"].ok


def test_ranks_are_judged_beside_one_shard_with_the_cores_of_each():
    rates = {"2x1": {"prefill": 180.0, 8: 160.0, 32: 200.0}, "1x1": {"prefill": 100.0, 8: 100.0, 32: 100.0},
             "1x2": {"prefill": 190.0, 8: 170.0, 32: 190.0}}
    rows = {row.row: row for row in tensor.judge({(how, shape): [rates[shape]] for how in ("engine", "served") for shape in rates})}
    assert [rows[f"growth.tensor.served.2x1/1x1.{what}"].ok for what in ("prefill", "batch_8", "batch_32")] == [True, False, True]
    assert rows["growth.tensor.engine.1x1.batch_8"].value == 100.0 and rows["growth.tensor.engine.1x2/1x1.batch_8"].value == 1.7 and len(rows) == 30


def test_kv_counts_in_whole_blocks():
    usage = {"prompt_tokens": 60, "completion_tokens": 5}
    assert start.kv_touched(loads.Stream(0, usage=usage), bytes_per_token=10) == 128 * 10


def test_the_memory_of_a_tree_is_at_least_that_of_its_root():
    own = machine.tree_pss(os.getpid())
    assert own > 1e6
    assert machine.tree_pss(2**22) == 0  # no such process


def test_stolen_time_counts_from_the_injection_on():
    stolen = machine.StolenTime()
    stolen._samples = [(0.0, 5.0), (1.0, 5.0), (1.5, 5.2), (2.0, 5.2), (3.0, 6.0)]
    assert stolen.cores_after(1.2, 0.3) == pytest.approx(0.2 / 0.3)
    assert stolen.cores_after(1.5, 0.5) == 0.0
    assert stolen.cores_after(0.0, 1.0) == 0.0
    assert stolen.cores_after(2.0, 10.0) == pytest.approx(0.08)  # it ended before that


def test_a_ratio_may_have_to_stay_under_its_bar():
    row = report.ratio_row("r", [1.0, 2.0], [10.0, 10.0], bar=0.1, lower_is_better=True)
    assert (row.value, row.ok, row.lower_is_better) == (pytest.approx(0.15), False, True)


def test_a_token_reads_all_weights_once_which_is_a_share_of_what_memory_can_give():
    assert engine.share_of_bandwidth({"batch_1": 200.0, "weights": 100.0, "memory_read": 25.0}) == pytest.approx(0.8)
    assert engine.share_of_bandwidth({}) is None


def test_the_ceiling_is_that_of_prompts_or_of_decoding_and_unknown_without_the_instructions():
    run = {"prompt_ceiling": 1000.0, "decoded_ceiling": 800.0, "batch_8": 400.0}
    assert engine.ceiling(run, "prefill_512") == 1000 and engine.ceiling(run, "batch_8") == 800
    assert engine.ceiling({"batch_8": 400.0}, "prefill_512") is None and engine.ceiling({}, "batch_8") is None
    share, beside = engine.ceiling_rows("engine", "baton", {"baton": [run], "llama": [{"batch_8": 200.0}]}, "batch_8")
    assert (share.row, share.value) == ("engine.baton/ceiling.batch_8", pytest.approx(0.5))
    assert (beside.row, beside.value) == ("engine.baton_ceiling/llama.batch_8", pytest.approx(4))
    assert engine.ceiling_rows("engine", "baton", {"baton": [{}], "llama": [{}]}, "batch_8") == []


def test_cores_of_a_role_are_those_between_two_moments():
    times = machine.RoleTimes(os.getpid())
    times._samples = [(0.0, {"head": 1.0, "client": 0.0}), (1.0, {"head": 1.1, "client": 0.5}), (3.0, {"head": 1.5, "client": 0.7}), (4.0, {"head": 3.0, "client": 0.7})]
    assert times.cores(1.2, 2.8) == {"head": pytest.approx(0.2), "client": pytest.approx(0.1)}
    rows = {row.row: row.value for row in engine.core_rows(Settings(None, None, threads=2, is_quick=False), [{"shard": 1.8, "head": 0.1, "client": 0.05}])}
    assert rows == {"door.cores.head": 0.1, "door.cores.client": 0.05, "door.http/in_process.ceiling": pytest.approx(0.925)}


def test_jsonschema_validates_by_the_schemas_own_draft():
    assert schema_judge.wrong_with({"type": "integer"}, "3") == ""
    assert "ValidationError" in schema_judge.wrong_with({"type": "integer"}, '"3"')
    assert "JSONDecodeError" in schema_judge.wrong_with({"type": "integer"}, "")
    tuple_of_draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}], "additionalItems": False}
    assert schema_judge.wrong_with(tuple_of_draft_7, "[1]") == "" and schema_judge.wrong_with(tuple_of_draft_7, "[1, 2]")
    assert "date" in schema_judge.wrong_with({"type": "string", "format": "date"}, '"2026-13-01"')


def test_a_stream_is_hit_by_a_blow_between_its_first_piece_and_its_last():
    answer = json_schemas.Answer(0, 0, {"name": "a.b", "schema": {}})
    answer.stamps = [1.0, 2.0, 3.0]
    assert [answer.was_in_the_middle(t) for t in (0.5, 1.0, 2.5, 3.0)] == [False, True, True, False]
    answer.finish, answer.finishes, answer.dones = "length", 1, 1
    assert answer.faults() == ["it ended by length"]


@pytest.mark.parametrize("words, why", [
    (["--devices", "cuda:0"], "--devices names two"),
    (["--devices", "cuda:0,cuda:0", "--only", "bus"], "--devices names two, and is for --only kill,pipeline"),
    (["--tensor", "--only", "kill"], "--tensor is for --only kill, with --devices"),
    (["--devices", "cuda:0,cuda:0", "--tensor", "--only", "pipeline"], "--tensor is for --only kill, with --devices"),
    (["--devices", "cuda:0,cuda:0", "--only", "kill", "--write"], "not of docs/develop/benchmarks.md's tables")])
def test_devices_are_for_the_sections_that_have_two_shards(words, why):
    done = subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parents[1] / "run.py", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and why in done.stderr, done.stderr


def test_shards_are_where_they_are_asked_for_and_one_process_on_the_first():
    settings = Settings(model=None, build=None, threads=2, is_quick=True, devices=["cuda:0", "cuda:1"])
    assert servers.shard_devices(settings) == (["cuda:0", "cuda:1"], ["cuda:0"])
    settings.devices = []
    assert servers.shard_devices(settings) == servers.core_devices(2)
