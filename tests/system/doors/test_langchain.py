"""The programs for LangChain in docs/apis/clients.md: langchain-openai, langchain-anthropic and langchain-ollama (PyPI) in a venv of their own."""
import os
import pathlib
import re
import subprocess
import sys

import pytest
from fake_answers import call, prompt_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))

from own_venv import program  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/apis/clients.md"
SECTION = PAGE.read_text().split("\n## LangChain\n")[1].split("\n## ")[0]
# The first ends with a stream, which the others have in common with it.
PROGRAMS = re.findall(r"^```python\n(.*?)^```", SECTION, re.M | re.S)
STREAM = PROGRAMS[0][PROGRAMS[0].index("for piece"):]
CLIENTS = {"openai": PROGRAMS[0].removesuffix(STREAM), "anthropic": PROGRAMS[1], "ollama": PROGRAMS[2]}
TEXT = "A river goes by.\nIt is wide."
CALL = f"Let me see.\n{call('weather', {'city': 'Oslo'})}"
TOOL = '''
from langchain_core.tools import tool

@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "mild"

asked = llm.bind_tools([weather])
'''


def printed(gateway, name, more):
    """-> the output of the page's program for a client, with `more` behind it"""
    text = CLIENTS[name]
    for there, here in (("http://localhost:8000", gateway.url), ('"smollm2"', '"fake"')):
        assert text.count(there) == 1
        text = text.replace(there, here)
    environment = {"PATH": os.environ["PATH"], "LANGSMITH_TRACING": "false"}
    done = subprocess.run([program("langchain", "python"), "-c", text + more], capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CLIENTS)
def test_the_program_of_the_page_streams_and_a_whole_answer_is_the_same(gateway, name):
    prompt = prompt_for(TEXT)
    assert STREAM.count('"Hello"') == 1
    program_text = STREAM.replace('"Hello"', repr(prompt)) + f'\nprint(llm.invoke({prompt!r}).content, end="")\n'
    if name == "anthropic":  # the content of its pieces is a list of blocks
        program_text = program_text.replace("piece.content", "piece.text")
    assert printed(gateway, name, program_text) == TEXT * 2


@pytest.mark.parametrize("name", CLIENTS)
def test_calls_of_tools_whole_and_streamed(gateway, name):
    prompt = repr(prompt_for(CALL))
    shown = f"""
whole = asked.invoke({prompt})
print([(c["name"], c["args"]) for c in whole.tool_calls])
pieces = None
for piece in asked.stream({prompt}):
    pieces = piece if pieces is None else pieces + piece
print([(c["name"], c["args"]) for c in pieces.tool_calls])
from langchain_core.messages import HumanMessage, ToolMessage
done = ToolMessage({prompt_for("It is mild.")!r}, tool_call_id=whole.tool_calls[0]["id"])
print(asked.invoke([HumanMessage("Weather?"), whole, done]).text)
"""
    expected = "[('weather', {'city': 'Oslo'})]\n"
    assert printed(gateway, name, TOOL + shown) == expected * 2 + "It is mild.\n"
