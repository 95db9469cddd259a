"""docs/apis/start-lines.md has a row for each option that cluster/import/launch_*.cpp reads of another server's start line, under that server's name, and for no other."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/apis/start-lines.md"
TABLES = [("vLLM", "launch_vllm.cpp", "vllm_options"), ("text-generation-inference", "launch_tgi.cpp", "tgi_options"),
          ("llama.cpp", "launch_llama.cpp", "llama_options"), ("SGLang", "launch_sglang.cpp", "sglang_options"),
          ("TorchServe", "launch_stores.cpp", "torchserve_options"), ("Triton", "launch_stores.cpp", "triton_options")]


def options_of(source, table):
    body = source.split(f"constexpr option {table}[]", 1)[1].split("\n};", 1)[0]
    rows = re.findall(r'\{((?:"[^"]*"\s*)+),\s*kind::', body)
    return sorted(name for row in rows for name in "".join(re.findall(r'"([^"]*)"', row)).split())


def rows_of(page, title):
    body = re.split(r"^## ", page.split(f"\n## {title}\n", 1)[1], flags=re.M)[0]
    rows = [line for line in body.splitlines() if line.startswith("| `-")]
    return rows, sorted(name for row in rows for name in re.findall(r"`(-[^` ]+)`", row.split(" | ")[0]))


@pytest.mark.parametrize("title, file, table", TABLES, ids=[t[0] for t in TABLES])
def test_each_option_of_a_start_line_has_its_row(title, file, table):
    read = options_of((ROOT / "cluster/import" / file).read_text(), table)
    rows, told = rows_of(PAGE.read_text(), title)
    assert len(read) > 5 and told == read
    assert [row for row in rows if not row.split(" | ", 1)[1].strip(" |")] == []
