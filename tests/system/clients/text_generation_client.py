"""TGI's client `text-generation` of PyPI, which runs in a venv of its own (text_generation_calls.py), for tests."""
import json
import subprocess

from own_venv import HERE, program


def calls(url, *wanted, key=None):
    """The outcome of each call."""
    done = subprocess.run([program("text_generation", "python"), HERE / "text_generation_calls.py", url, *([key] if key else [])],
                          input="".join(json.dumps(w) + "\n" for w in wanted), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
