"""Service envelopes of TorchServe, of our own: they take requests out of what orchestrators wrap them in, and wrap the answers.

Which one is TS_SERVICE_ENVELOPE's in the environment, as TorchServe reads it: "body", "json" or "kserve".
"""

from __future__ import annotations

import base64
import json
from typing import Any, Callable, List

from .handler import RequestError

ENVIRONMENT = "TS_SERVICE_ENVELOPE"
Entry = Callable[[Any, Any], Any]


def said(row: Any) -> Any:
    """The one thing that a request has."""
    return row.get("data") or row.get("body")


def plain(value: Any) -> Any:
    """Of {"b64": TEXT} the bytes."""
    return base64.b64decode(value["b64"]) if isinstance(value, dict) and list(value) == ["b64"] else value


def instances_of(row: Any) -> List[Any]:
    """Raises RequestError."""
    body = said(row)
    try:
        body = json.loads(body) if isinstance(body, (bytes, bytearray, str)) else body
        all_of_them = body["instances"]
        if not isinstance(all_of_them, list):
            raise TypeError
    except (ValueError, KeyError, TypeError) as wrong:
        raise RequestError('the body is no JSON object with "instances", a list') from wrong
    return all_of_them


def enveloped(name: str, entry: Entry) -> Entry:
    """The handler behind it. Raises ValueError: there is no such envelope."""
    if name == "body":
        return lambda data, context: entry([said(row) for row in data], context)
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
    """What one client has wrong is not the batch's."""
    try:
        return instances_of(row)
    except RequestError as wrong:
        return wrong


def _without_base64(one: Any) -> Any:
    """{"b64": TEXT} in place of an instance, or of one of its members."""
    bare = plain(one)
    return {name: plain(value) for name, value in bare.items()} if isinstance(bare, dict) else bare
