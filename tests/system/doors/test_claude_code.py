"""Claude Code, which the package claude-agent-sdk (PyPI) has in its wheel, against the gateway. The fake head answers with the call of a tool;
the file that the program then reads orders the next answer. The venv takes 400 MB: `./check
frameworks` makes it."""
import os
import pathlib
import re
import subprocess
import sys

import pytest
from fake_answers import call, prompt_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))

from own_venv import FOLDER, is_made  # noqa: E402

pytestmark = pytest.mark.skipif(not is_made("claude_code"), reason="no venv for Claude Code: ./check frameworks makes it")
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/apis/anthropic.md"
SECONDS_MAX = 120
# Keep it off the network.
OFFLINE = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def variables_of_the_page():
    section = PAGE.read_text().split("\n## Claude Code\n")[1].split("\n## ")[0]
    lines = re.search(r"^```\n(.*?)^```", section, re.M | re.S)[1].splitlines()
    assert lines.pop() == "claude"
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


@pytest.fixture
def asked(gateway, tmp_path):
    """-> a function: prompt, more arguments -> what Claude Code prints"""
    program, = FOLDER.glob("claude_code/lib/python3*/site-packages/claude_agent_sdk/_bundled/claude")
    project = tmp_path / "project"
    project.mkdir()

    def ask(prompt, *words, **more):
        variables = {key: value.replace("http://localhost:8000", gateway.url).replace("smollm2", "fake") for key, value in variables_of_the_page().items()}
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables, **OFFLINE, **more}
        done = subprocess.run([program, "-p", prompt, *words], capture_output=True, text=True, cwd=project, env=environment, timeout=SECONDS_MAX, check=False,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
        assert "context window" not in done.stderr  # the page sets it
        return done.stdout.strip()

    ask.project = project
    return ask


# Its own settings of thinking are sent to each model: by default the model decides.
@pytest.mark.parametrize("more", [{}, {"MAX_THINKING_TOKENS": "0"}, {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1"}], ids=["as_it_is", "no_thinking", "no_betas"])
def test_a_file_is_read_by_a_tool(asked, more):
    notes = asked.project / "notes.txt"
    notes.write_text(f" {prompt_for('It says so.')} \n")
    assert asked(prompt_for(call("Read", {"file_path": str(notes)})), **more) == "It says so."


def test_a_file_is_written_by_a_tool(asked):
    """The path, which the tool's result names, orders the next answer."""
    path = asked.project / f"x {prompt_for('Written.')} x"
    answer = call("Write", {"file_path": str(path), "content": "hello\n"})
    assert asked(prompt_for(answer), "--permission-mode", "acceptEdits") == "Written."
    assert path.read_text() == "hello\n"


def test_an_answer_without_a_call_is_printed(asked):
    assert asked(prompt_for("I see no need.")) == "I see no need."
