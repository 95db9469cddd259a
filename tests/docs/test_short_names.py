"""The table of short names in docs/start/your-model.md is that of the binary."""
import json
import re
import subprocess

from command_lines import CLUSTER, ROOT

PAGE = ROOT / "docs/start/your-model.md"


def names_of_the_page():
    """-> {"smollm2:135m", ...} of rows like | `gemma2`, `gemma3` | `2b`; `1b` |"""
    part = PAGE.read_text().split("## By its short name")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (`.*) \|$", part, re.M)
    quoted = lambda text: re.findall(r"`([^`]+)`", text)  # noqa: E731
    return [f"{family}:{size}" for families, sizes in rows for family, own in zip(quoted(families), sizes.split(";"), strict=True) for size in quoted(own)]


def test_the_page_has_each_name_in_the_order_of_the_table():
    known = json.loads(subprocess.run([CLUSTER, "models", "--known", "--json"], capture_output=True, text=True, check=True, timeout=60).stdout)
    families = lambda names: {n: [m for m in names if m.startswith(n + ":")] for n in {m.split(":")[0] for m in names}}  # noqa: E731
    assert families(names_of_the_page()) == families([m["name"] for m in known])
