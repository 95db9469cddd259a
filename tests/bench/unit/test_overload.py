"""How the row `overload` of ./check faults evaluates its windows: pytest tests/bench."""
import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fault_client  # noqa: E402
from sections import overload  # noqa: E402


def phase(*rates, disturbed=0, refusals=(), faults=(), accepted=(1.0,)):
    crowd = fault_client.Crowd(refusals=list(refusals), faults=list(faults), accepted=list(accepted))
    return types.SimpleNamespace(rates=list(rates), disturbed=disturbed, crowd=crowd)


def rows_of(*phases):
    return {row.row: row for row in overload.rows(*phases)}


def test_goodput_is_of_the_mean_of_both_halves():
    rows = rows_of(phase(90, 100), phase(99, 98, 97, refusals=[0.01, 0.02], disturbed=2), phase(110, 100))
    goodput = rows["overload.goodput"]
    assert (goodput.value, goodput.min, goodput.max, goodput.ok) == (pytest.approx(0.98), pytest.approx(0.97), pytest.approx(0.99), True)
    assert rows["overload.disturbed"].value == 2
    assert rows["overload.refusal.p99"].ok
    assert not rows_of(phase(100, 100), phase(94, 94, 94), phase(100, 100))["overload.goodput"].ok


def test_too_few_windows_are_no_result():
    assert not rows_of(phase(100), phase(100, 100, 100), phase(100))["overload.goodput"].ok
    assert not rows_of(phase(100, 100), phase(100, 100), phase(100, 100))["overload.goodput"].ok


def test_faults_of_every_phase_are_reported():
    wrong = rows_of(phase(1, 1, faults=["HTTP 500"]), phase(1, 1, 1, refusals=[0.1]), phase(1, 1, faults=["HTTP 400"]))
    assert (wrong["overload.wrong"].value, wrong["overload.wrong"].reason) == (2, "HTTP 400; HTTP 500")
    assert not wrong["overload.refusal.p99"].ok


def test_the_servers_count_is_read_from_its_metrics():
    text = '# TYPE baton_output_tokens_total counter\nbaton_output_tokens_total{engine="0",model_name="a"} 120\n' \
           'baton_output_tokens_total{engine="1",model_name="b"} 1e3\n'
    assert overload._output(types.SimpleNamespace(get=lambda path: (200, text))) == 1120
    with pytest.raises(OSError):
        overload._output(types.SimpleNamespace(get=lambda path: (503, "")))


def test_accepted_requests_are_compared_with_the_time_without_overload():
    calm = phase(1, 1, accepted=[1.0, 2.0, 3.0])
    rows = rows_of(calm, phase(1, 1, 1, accepted=[3.0] * 99 + [6.0]), calm)
    assert (rows["overload.accepted_in_slo"].value, rows["overload.accepted.p99"].ok) == (1, True)
    rows = rows_of(calm, phase(1, 1, 1, accepted=[3.0] * 97 + [6.1] * 3), calm)
    assert (rows["overload.accepted_in_slo"].value, rows["overload.accepted_in_slo"].ok, rows["overload.accepted.p99"].ok) == (0.97, False, False)
    assert not rows_of(calm, phase(1, 1, 1, accepted=[]), calm)["overload.accepted_in_slo"].ok
