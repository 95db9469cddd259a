"""Asks a model.py's `auto_complete_config` for what config.pbtxt leaves out, before any worker of the model starts.

Run as `python3 -m baton_worker.triton_complete DIRECTORY/VERSION/model.py`. The last line of the output is one of:

* `completed FIELDS`: the completed fields, in the text format of config.pbtxt.
* `failed WHY`: Triton would not load the model either.
* `unable WHY`: this Python lacks a package.

It is a process of its own, since a model may import or print anything."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import List

from baton_worker import pbtxt

FIELDS = ("max_batch_size", "input", "output", "dynamic_batching", "model_transaction_policy")  # the ones that the hook can set
WHY_CHARS_MAX = 512


def completion(file: Path) -> str:
    """The fields that the hook has set or changed. Raises what the model raises."""
    from baton_worker import triton
    from baton_worker.triton_config import whole

    module = triton.module_of(file)
    given = whole({"name": file.parent.parent.name, **(pbtxt.beside(file) or {})})
    made = triton.completed(module.TritonPythonModel, copy.deepcopy(given))
    return pbtxt.text({field: made[field] for field in FIELDS if field in made and made[field] != given.get(field)})


def main(arguments: List[str]) -> str:
    try:
        return f"completed {completion(Path(arguments[0]).resolve())}"
    except ImportError as wrong:
        return f"unable {_words(wrong)}"
    except Exception as wrong:  # a model may raise anything
        return f"failed {type(wrong).__name__}: {_words(wrong)}"


def _words(wrong: Exception) -> str:
    return " ".join(str(wrong).split())[:WHY_CHARS_MAX]


if __name__ == "__main__":
    last = main(sys.argv[1:])
    print(f"\n{last}", flush=True)  # behind whatever the model has printed
