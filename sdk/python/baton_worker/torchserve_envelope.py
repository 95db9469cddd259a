"""Our versions of TorchServe's service envelopes: they unwrap the requests of orchestrators, and wrap the answers.

TS_SERVICE_ENVELOPE in the environment selects one, as in TorchServe: "body", "json" or "kserve".
"""

from __future__ import annotations

import base64
import json
from typing import Any, Callable, List

from .handler import RequestError

ENVIRONMENT = "TS_SERVICE_ENVELOPE"
Entry = Callable[[Any, Any], Any]


def single_input(row: Any) -> Any:
    """The single input of a request."""
    return row.get("data") or row.get("body")


def plain(value: Any) -> Any:
    """Decodes {"b64": TEXT} to bytes."""
    return base64.b64decode(value["b64"]) if isinstance(value, dict) and list(value) == ["b64"] else value


def instances_of(row: Any) -> List[Any]:
    """Raises RequestError."""
    body = single_input(row)
    try:
        body = json.loads(body) if isinstance(body, (bytes, bytearray, str)) else body
        all_of_them = body["instances"]
        if not isinstance(all_of_them, list):
            raise TypeError
    except (ValueError, KeyError, TypeError) as wrong:
        raise RequestError('the body is no JSON object with "instances", a list') from wrong
    return all_of_them


def enveloped(name: str, entry: Entry) -> Entry:
    """The handler behind the envelope. Raises ValueError if there is no such envelope."""
    if name == "body":
        return lambda data, context: entry([single_input(row) for row in data], context)
    if name not in ("json", "kserve"):
        raise ValueError(
            f"the envelope is {name!r}: body, json and kserve are here; KServe's second protocol is always there, at gateway.http, for models with tensors"
        )

    def run(data: Any, context: Any) -> Any:
        rows = [_instances_or_refusal(row) for row in data]
        good = [row for row in rows if isinstance(row, list)]
        if not good:
            return rows
        if name == "json":
            good = [[_without_base64(one) for one in row] for row in good]
        made = entry([one for row in good for one in row], context)
        if not isinstance(made, list) or len(made) != sum(map(len, good)):
            raise ValueError("number of batch response mismatched")
        key = "explanations" if name == "kserve" and context.get_request_header(0, "explain") == "True" else "predictions"
        left = iter(made)
        return [{key: [next(left) for _ in row]} if isinstance(row, list) else row for row in rows]

    return run


def _instances_or_refusal(row: Any) -> Any:
    """A client's invalid request does not fail the batch."""
    try:
        return instances_of(row)
    except RequestError as wrong:
        return wrong


def _without_base64(one: Any) -> Any:
    """{"b64": TEXT} in place of an instance, or of one of its members."""
    bare = plain(one)
    return {name: plain(value) for name, value in bare.items()} if isinstance(bare, dict) else bare
