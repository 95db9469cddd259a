"""docs/reference/cli.md and the manual page are the help of the binary."""
import shutil
import subprocess
import sys

import pytest
from command_lines import CLUSTER, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import cli_pages  # noqa: E402

PAGES = cli_pages.pages(CLUSTER)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_the_help_of_the_binary(page):
    assert page.read_text() == PAGES[page], "run python3 scripts/cli_pages.py"


def test_each_command_and_each_of_its_parts_has_a_section():
    headings = [line for line in PAGES[cli_pages.PAGE].splitlines() if line.startswith("## ")]
    assert {"## cluster up", "## cluster join", "## cluster model inspect", "## cluster down"} <= set(headings)


@pytest.mark.skipif(not shutil.which("man"), reason="no man here")
def test_man_reads_the_manual_without_a_warning():
    done = subprocess.run(["man", "--warnings", "-l", str(cli_pages.MANUAL)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr and "cluster join" in done.stdout, done.stderr
