"""Each page of docs/apis/start-lines lists exactly the options that cluster/import/launch_*.cpp reads of that server's start line. An option
is a row with its key, or stands behind the reason why it is left out."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/apis/start-lines"
TABLES = [("vllm", "launch_vllm.cpp", "vllm_options"), ("tgi", "launch_tgi.cpp", "tgi_options"),
          ("llama-cpp", "launch_llama.cpp", "llama_options"), ("sglang", "launch_sglang.cpp", "sglang_options"),
          ("torchserve", "launch_torchserve.cpp", "torchserve_options"), ("triton", "launch_triton.cpp", "triton_options"),
          ("triton-openai", "launch_triton.cpp", "triton_openai_options"),
          ("torchserve-llm", "launch_torchserve_llm.cpp", "torchserve_llm_options")]


def options_of(source, table):
    body = source.split(f"constexpr option {table}[]", 1)[1].split("\n};", 1)[0]
    rows = re.findall(r'\{((?:"[^"]*"\s*)+),\s*kind::', body)
    return sorted(name for row in rows for name in "".join(re.findall(r'"([^"]*)"', row)).split())


OPTION = re.compile(r"`(-[^` ]+)`")


def rows_of(page):
    """Each row as (its options, what the import does with them)."""
    keys, left_out = page.split("\n## Options that become keys\n", 1)[1].split("\n## Options that are left out\n", 1)
    rows = [line.split(" | ", 1) for line in keys.splitlines() if line.startswith("| `-")]
    items = re.findall(r"^\* \*\*(.*?)\*\*:\s+(.*?)\.$", left_out, re.M | re.S)
    assert len(items) == left_out.count("\n* ")
    return [(OPTION.findall(first), rest.strip(" |")) for first, rest in rows] + [(OPTION.findall(options), reason) for reason, options in items]


@pytest.mark.parametrize("name, file, table", TABLES, ids=[t[0] for t in TABLES])
def test_each_option_of_a_start_line_has_its_row(name, file, table):
    read = options_of((ROOT / "cluster/import" / file).read_text(), table)
    rows = rows_of((PAGES / f"{name}.md").read_text())
    assert len(read) > 5 and sorted(option for options, _ in rows for option in options) == read
    assert [options for options, becomes in rows if not becomes.strip()] == []
