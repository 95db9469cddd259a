"""TorchServe's own gRPC messages, of its package `torchserve` of PyPI, in a venv of their own (torchserve_calls.py), for tests."""
import json
import subprocess

from own_venv import HERE, program


def calls(*wanted):
    """The outcome of each call."""
    done = subprocess.run([program("torchserve", "python"), HERE / "torchserve_calls.py"], input="".join(json.dumps(w) + "\n" for w in wanted),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
