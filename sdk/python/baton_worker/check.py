"""Whether this Python has the packages that workers need. Used by `cluster doctor`.

Prints one line per missing package. The exit status is then 1, or 3 if only some handlers need it. PyYAML is needed only with a model-config.yaml.

    python3 -m baton_worker.check [torchserve | triton | onnx | torchscript | tensorflow ...]
"""

from __future__ import annotations

import sys
from typing import Sequence

from .needs import SOMETIMES, WANTED, missing


def main(entries: Sequence[str]) -> int:
    unknown = [entry for entry in entries if entry not in WANTED]
    if unknown:
        print(f"{unknown[0]} is no entry point: {', '.join(WANTED)}", file=sys.stderr)
        return 2
    lines = missing(entries)
    for line in lines:
        print(line)
    if not lines:
        return 0
    return 1 if missing([entry for entry in entries if entry not in SOMETIMES]) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
