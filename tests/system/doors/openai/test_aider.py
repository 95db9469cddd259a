"""aider (PyPI), which edits files by the text of a model, against the gateway. The fake head answers with the edit. Its venv takes 530 MB:
`./check frameworks` makes it."""
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from fake_answers import prompt_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from own_venv import is_made, program  # noqa: E402

pytestmark = pytest.mark.skipif(not is_made("aider"), reason="no venv for aider: ./check frameworks makes it")
BEFORE = 'def greet():\n    return "hi"\n'
AFTER = 'def greet():\n    return "hello"\n'
WHOLE = f"greet.py\n```\n{AFTER}```\n"
DIFF = 'greet.py\n```python\n<<<<<<< SEARCH\n    return "hi"\n=======\n    return "hello"\n>>>>>>> REPLACE\n```\n'
SECONDS_MAX = 120
PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs/apis/clients.md"
# Keep it off the network, and away from terminals and repositories.
OFFLINE = ["--no-git", "--map-tokens", "0", "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--analytics-disable", "--no-pretty"]


def of_the_page():
    """-> (variables, words of its command) of docs/apis/clients.md"""
    section = PAGE.read_text().split("\n## aider\n")[1].split("\n## ")[0]
    *variables, command = re.search(r"^```\n(.*?)^```", section, re.M | re.S)[1].splitlines()
    once = re.search(r"`(--message \"[^`]*)`", section)[1]
    return dict(line.removeprefix("export ").split("=", 1) for line in variables), shlex.split(f"{command} {once}")


def edited(gateway, folder, answer, *words, edit_format="whole"):
    """-> (the edited file, aider's output)"""
    file = folder / "greet.py"
    file.write_text(BEFORE)
    variables, (name, *command) = of_the_page()
    assert name == "aider"
    command[command.index("--message") + 1] = prompt_for(answer)
    command[command.index("--edit-format") + 1] = edit_format
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                   **{key: value.replace("http://localhost:8000", gateway.url) for key, value in variables.items()}}
    done = subprocess.run([program("aider", "aider"), *(word.replace("openai/smollm2", "openai/fake") for word in command), *OFFLINE, *words],
                          capture_output=True, text=True, cwd=folder, env=environment, timeout=SECONDS_MAX, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return file.read_text(), done.stdout


@pytest.mark.parametrize("answer, edit_format, words", [(WHOLE, "whole", []), (DIFF, "diff", []), (WHOLE, "whole", ["--no-stream"])],
                         ids=["whole", "diff", "not_streamed"])
def test_a_file_is_edited(gateway, tmp_path, answer, edit_format, words):
    text, said = edited(gateway, tmp_path, answer, *words, edit_format=edit_format)
    assert text == AFTER, said


def test_an_answer_without_an_edit_changes_nothing(gateway, tmp_path):
    assert edited(gateway, tmp_path, "I see no need.")[0] == BEFORE
