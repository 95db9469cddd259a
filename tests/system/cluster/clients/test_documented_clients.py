"""The curl lines from other servers' documentation for a language model (tests/system/seeds), unchanged except for the port and the
model's name."""
import json
import re
import shlex
import subprocess

import pytest
from harness import running
from test_start_lines import SEEDS

LINES = [(path.parent.name, line) for path in sorted(SEEDS.glob("*/clients.txt")) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def cluster():
    with running() as c:
        yield c


def ask(cluster, line):
    """-> the response's body; its status must be 200"""
    words = shlex.split(re.sub(r"(localhost|127\.0\.0\.1):\d+", f"127.0.0.1:{cluster.http_port}", line).replace("MODEL", "smollm2"))
    done = subprocess.run([*words, "-sS", "-w", "\n%{http_code}"], capture_output=True, text=True, timeout=120)
    body, _, status = done.stdout.rpartition("\n")
    assert (done.returncode, status) == (0, "200"), done.stdout + done.stderr
    return body


@pytest.mark.parametrize("system, line", LINES, ids=[f"{s}-{n}" for n, (s, _) in enumerate(LINES)])
def test_curl_lines_of_other_servers_are_answered(cluster, system, line):
    body = ask(cluster, line)
    assert '"error"' not in body, body
    if '"get_current_weather"' in line:
        (call,) = json.loads(body)["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "get_current_weather"
    elif "guided_choice" in line:
        assert json.loads(body)["choices"][0]["message"]["content"] in ("positive", "negative")
    elif "SELECT" in line:
        assert json.loads(body)["choices"][0]["message"]["content"].startswith("SELECT col_")
    elif "health" not in line:
        assert re.search(r'"(text|content|generated_text|text_output)":', body), body
