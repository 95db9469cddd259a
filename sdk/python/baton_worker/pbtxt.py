"""config.pbtxt (protobuf's text format, without its schema) as the dict that Triton gives a Python model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\n?|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[A-Za-z_][\w.]*)"""
    r"""|(?P<number>-?[0-9][\w.+-]*)|(?P<mark>[{}\[\]:,;]))"""
)
_REPEATED = frozenset(
    "input output instance_group dims shape dim batch_input batch_output target_name source_input gpus secondary_devices profile resources step "
    "gpu_execution_accelerator cpu_execution_accelerator graph_spec preferred_batch_size versions control_input control int32_false_true "
    "fp32_false_true bool_false_true state initial_state model_warmup op_library_filename agents metric_control buckets".split()
)
_MAPS = frozenset("parameters metric_tags cc_model_filenames priority_queue_policy inputs input_map output_map".split())
DEPTH_MAX = 32


def parse(text: str) -> Dict[str, Any]:
    """Raises ValueError with the position."""
    return _Parser(text).whole()


def beside(model: Path, named: Optional[str] = None) -> Optional[Dict[str, Any]]:
    """The config of a model's file in a repository (MODEL/VERSION/FILE), or the named one; None: there is none. Raises ValueError."""
    file = Path(named) if named else model.parent.parent / "config.pbtxt"
    if file.is_file():
        return parse(file.read_text())
    if named:
        raise ValueError(f"{file} is no file")
    return None


def text(config: Dict[str, Any]) -> str:
    """The same in one line. Enumerators are quoted as strings, which readers without a schema take as equal."""
    return " ".join(_field(name, value) for name, value in config.items())


def _field(name: str, value: Any) -> str:
    if name in _MAPS and isinstance(value, dict):
        return " ".join(f"{name} {{ {_field('key', key)} {_field('value', one)} }}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(_field(name, one) for one in value)
    if isinstance(value, dict):
        return f"{name} {{ {text(value)} }}"
    if isinstance(value, bool):
        return f"{name}: {'true' if value else 'false'}"
    return f"{name}: {value}" if isinstance(value, (int, float)) else f"{name}: {_quoted(str(value))}"


def _quoted(value: str) -> str:
    return '"' + "".join(f"\\{c}" if c in '"\\' else c if c.isprintable() else " " for c in value) + '"'


class _Parser:
    def __init__(self, text: str):
        self._tokens = list(_tokens(text))
        self._at = 0

    def whole(self) -> Dict[str, Any]:
        made = self._fields("")
        if self._at < len(self._tokens):
            raise ValueError(f"config.pbtxt: an unexpected '{self._tokens[self._at][1]}'")
        return made

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> Tuple[str, str]:
        if self._at == len(self._tokens):
            raise ValueError("config.pbtxt ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _fields(self, end: str, depth: int = 0) -> Dict[str, Any]:
        if depth > DEPTH_MAX:
            raise ValueError(f"config.pbtxt has more than {DEPTH_MAX} levels")
        made: Dict[str, Any] = {}
        while self._peek() != end:
            kind, name = self._take()
            if kind != "word":
                raise ValueError(f"config.pbtxt: '{name}' where a field's name should be")
            if self._peek() == ":":
                self._take()
            self._put(made, name, self._value(depth))
            while self._peek() in (",", ";") and self._peek():
                self._take()
        if end:
            self._take()
        return made

    @staticmethod
    def _put(made: Dict[str, Any], name: str, value: Any) -> None:
        if name in _MAPS and isinstance(value, dict) and "key" in value:
            made.setdefault(name, {})[value["key"]] = value.get("value")
        elif name in _REPEATED or isinstance(value, list):
            made.setdefault(name, []).extend(value if isinstance(value, list) else [value])
        else:
            made[name] = value

    def _value(self, depth: int) -> Any:
        kind, text = self._take()
        if text == "{" and kind == "mark":
            return self._fields("}", depth + 1)
        if text == "[" and kind == "mark":
            values: List[Any] = []
            while self._peek() != "]":
                values.append(self._value(depth + 1))
                if self._peek() == ",":
                    self._take()
            self._take()
            return values
        if kind == "text":
            return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
        if kind == "number":
            return float(text) if re.search(r"[.eE]", text) else int(text, 0)
        if kind == "word":
            return {"true": True, "True": True, "false": False, "False": False}.get(text, text)
        raise ValueError(f"config.pbtxt: '{text}' where a value should be")


def _tokens(text: str) -> Iterator[Tuple[str, str]]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"config.pbtxt, line {line}: '{text[at:at + 20].strip()}'")
        at = found.end()
        if found.lastgroup is not None:
            yield found.lastgroup, found[found.lastgroup]
