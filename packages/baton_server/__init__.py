"""The Baton server as a Python package: `cluster` and `baton` run the binary in it.

The commands put the environment's own `python3` first in PATH: workers of nodes.toml are started by that name, and need this
package's `baton_worker`.
"""
import os
import sys
from pathlib import Path


def program() -> str:
    """The path of the binary."""
    return str(Path(__file__).resolve().parent / "bin" / "cluster")


def main() -> None:
    """Becomes the binary, with the same arguments."""
    if sys.prefix != sys.base_prefix:
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", os.defpath)])
    os.execv(program(), [os.path.basename(sys.argv[0]), *sys.argv[1:]])
