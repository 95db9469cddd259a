"""The program for LangChain in docs/apis/clients.md, with langchain-openai (PyPI) in a venv of its own."""
import os
import pathlib
import re
import subprocess
import sys

from fake_answers import prompt_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from own_venv import program  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs/apis/clients.md"
TEXT = "A river goes by.\nIt is wide."
WHOLE = f'\nprint(llm.invoke({prompt_for(TEXT)!r}).content, end="")\n'


def test_the_program_of_the_page_streams_and_a_whole_answer_is_the_same(gateway):
    section = PAGE.read_text().split("\n## LangChain\n")[1].split("\n## ")[0]
    text = re.search(r"^```python\n(.*?)^```", section, re.M | re.S)[1]
    for there, here in (("http://localhost:8000", gateway.url), ('"smollm2"', '"fake"'), ('"Hello"', repr(prompt_for(TEXT)))):
        assert text.count(there) == 1
        text = text.replace(there, here)
    environment = {"PATH": os.environ["PATH"], "LANGSMITH_TRACING": "false"}
    done = subprocess.run([program("langchain", "python"), "-c", text + WHOLE], capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == TEXT * 2
