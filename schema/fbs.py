"""Reads schema/api.fbs and wire.fbs for the generators of C++ (generate_codec.py) and of Python
(sdk/python/generate_wire.py).

It reads the part of FlatBuffers' language that the two files use. It refuses the rest, with the
number of the line. flatc checks types and numbers.
"""

import os
import re
import tempfile
from pathlib import Path

ATTRIBUTES = r"(?:\((?P<attributes>[^)]*)\))?"
FIELD = re.compile(r"\s*(?P<name>\w+)\s*:\s*(?P<vector>\[?)(?P<type>\w+)\]?\s*(?:=\s*(?P<default>[\w.-]+))?\s*" + ATTRIBUTES + r"\s*;")
DECLARATION = re.compile(r"\s*(?P<kind>table|struct|enum|union)\s+(?P<name>\w+)\s*(?::\s*(?P<of>\w+))?\s*" + ATTRIBUTES + r"\s*\{")
ENUMERATOR = re.compile(r"\s*(\w+)\s*(?:=\s*(\d+))?\s*,?")
OUTSIDE = re.compile(r'\s*((namespace|include|attribute)\s+["\w.]+\s*;)?\s*$')


def attributes_of(text):
    found = re.findall(r'(\w+)(?:\s*:\s*"(.*?)")?', text or "")
    return {name: value for name, value in found}


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Field:
    def __init__(self, match, before, behind):
        self.name, self.type, self.default = match["name"], match["type"], match["default"]
        self.is_vector = match["vector"] == "["
        self.attributes = attributes_of(match["attributes"])
        self.before, self.behind = before, behind  # comments: lines above, and the rest of the line

    @property
    def is_duration(self):
        return self.name.endswith("_ms")

    @property
    def plain_name(self):  # without the unit, which the type of the member has
        return self.name.removesuffix("_ms")

    @property
    def member(self):
        return self.attributes.get("as", self.plain_name)


class Table:
    """A table or a struct of FlatBuffers."""

    def __init__(self, kind, name, attributes, comment):
        self.kind, self.name, self.fields, self.comment = kind, name, [], comment
        self.attributes = attributes_of(attributes)

    @property
    def struct(self):
        return self.attributes.get("as", snake(self.name))

    def says(self, field):  # the field's name in errors
        prefix = self.attributes.get("says", self.struct if "as" not in self.attributes else snake(self.name))
        return f"{prefix}.{field.plain_name}" if prefix else field.plain_name


class Enum:
    def __init__(self, name, of, comment):
        self.name, self.of, self.comment, self.values = name, of, comment, {}

    def read(self, text):
        """Adds the enumerators of `text`, and returns the text behind them."""
        while match := ENUMERATOR.match(text):
            self.values[match[1]] = int(match[2]) if match[2] else max(self.values.values(), default=-1) + 1
            text = text[match.end():]
        return text


class Schema:
    """Tables and structs in their order, and the kind of each name: table, struct, enum, union."""

    def __init__(self, files):
        self.tables, self.enums, self.kinds = [], {}, {}
        for file in files:
            self.read(Path(file))
        self.by_name = {table.name: table for table in self.tables}

    def read(self, file):
        comments, open_part = [], None
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            code, has_comment, comment = line.partition("//")
            if not code.strip():
                comments = comments + [comment.strip()] if has_comment else []
                continue
            if declaration := DECLARATION.match(code):
                open_part = self.opened(declaration, comments)
                code, comments = code[declaration.end():], []
            if isinstance(open_part, Table):
                while match := FIELD.match(code):
                    open_part.fields.append(Field(match, comments, comment.strip()))
                    code, comments = code[match.end():], []
            elif isinstance(open_part, Enum):
                code = open_part.read(code)
            if open_part and code.strip() == "}":
                code, open_part = "", None
            if code.strip() and (open_part or not OUTSIDE.match(code)):
                raise SystemExit(f"{file}:{number}: a generator cannot read: {code.strip()}")
            comments = []

    def opened(self, declaration, comments):
        kind, name = declaration["kind"], declaration["name"]
        self.kinds[name] = kind
        if kind in ("table", "struct"):
            self.tables.append(Table(kind, name, declaration["attributes"], comments))
            return self.tables[-1]
        enum = Enum(name, declaration["of"], comments)
        if kind == "enum":
            self.enums[name] = enum
        return enum


def write_if_changed(file, text):
    """Writes whole files only: two builds may run at once. An equal file keeps its time."""
    file = Path(file)
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=file.parent, prefix=file.name + ".")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(scratch, 0o644)
    os.replace(scratch, file)
