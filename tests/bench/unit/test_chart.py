"""The chart of the README shows the results that stand in docs/develop/benchmarks.md: pytest tests/bench."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import chart  # noqa: E402

RESULTS = """<!-- results -->
2026-01-02, abc, a.gguf, llama.cpp 1.

| machine.cpu | A & B | text |  |  |  |  |
| machine.cores | 2 | cores |  |  |  |  |
| engine.baton/llama.batch_1 | 2 | x | 1 .. 3 | 5 |  |  |
| engine.baton_8bit/llama.batch_1 | 4 | x | 1 .. 3 | 5 |  |  |
| engine.baton.batch_1 | 300 | tokens/s | 1 .. 3 | 5 |  |  |
<!-- end of results -->
"""


def test_each_ratio_has_a_bar_as_long_as_it_says():
    drawn = chart.draw(RESULTS, chart.THEMES["light"])
    assert drawn.count('height="13"') == 2 and ">2.0 x<" in drawn and ">4.0 x<" in drawn
    widths = [float(part.split('"')[0]) for part in drawn.split('height="13"')[0:2] for part in part.split('width="')[-1:]]
    assert abs(widths[1] / widths[0] - 2) < 0.01
    assert "A &amp; B, 2 cores" in drawn and "a.gguf, llama.cpp 1. 2026-01-02." in drawn


def test_the_chart_of_the_readme_is_that_of_the_written_results():
    text = chart.DOCUMENT.read_text()
    for name, theme in chart.THEMES.items():
        assert (chart.IMAGES / f"speed-{name}.svg").read_text() == chart.draw(text, theme), "run python3 tests/bench/chart.py"
