"""Generates baton_client/wire/ from schema/api.fbs. Run by setup.py and by CMake.

flatc makes the classes. wire/tables.py has the fields of each table, from which
baton_client/tables.py writes and reads messages. A source distribution already contains the
generated code and needs neither flatc nor the schema.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "schema"
WIRE = HERE / "baton_client" / "wire"
SOURCES = [SCHEMA / "api.fbs", SCHEMA / "fbs.py", HERE / "generate_wire.py"]

SIZES = {"bool": 1, "ubyte": 1, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "float": 4, "double": 8}


def _layout(schema, struct):
    """The bytes of a struct, and its alignment."""
    size, alignment = 0, 1
    for field in struct.fields:
        own = SIZES[field.type]
        size = (size + own - 1) // own * own + own
        alignment = max(alignment, own)
    return (size + alignment - 1) // alignment * alignment, alignment


def _default(schema, field):
    enum = schema.enums.get(field.type)
    if field.is_vector or field.type not in SIZES and enum is None or field.default == "null":
        return None
    if enum is not None:
        return enum.values[field.default] if field.default else 0
    if field.type == "bool":
        return field.default == "true"
    return (float if field.type in ("float", "double") else int)(field.default or 0)


def _rows(schema, table):
    """(name, member in C++ without its path, type, is a vector, default) of each slot of a table."""
    for field in table.fields:
        if schema.kinds.get(field.type) == "union":  # its kind has a slot of its own
            yield (f"{field.name}_type", f"{field.name}_type", "ubyte", False, 0)
        enum = schema.enums.get(field.type)
        yield (field.name, field.member.rpartition(".")[2], enum.of if enum else field.type, field.is_vector, _default(schema, field))


def tables_of(schema):
    """The text of wire/tables.py."""
    lines = ['"""Made by sdk/python/generate_wire.py of schema/api.fbs."""', "", "# (name, name in C++, type, is a vector, default) of each slot", "FIELDS = {"]
    for table in schema.tables:
        if table.kind == "table":
            rows = "".join(f"        {row!r},\n" for row in _rows(schema, table))
            lines.append(f"    {table.name!r}: (\n{rows}    ),")
    lines += ["}", "# bytes and alignment", "STRUCTS = {"]
    lines += [f"    {table.name!r}: {_layout(schema, table)!r}," for table in schema.tables if table.kind == "struct"]
    return "\n".join([*lines, "}", f"UNIONS = {sorted(n for n, kind in schema.kinds.items() if kind == 'union')!r}", ""])


def generate() -> None:
    if not SOURCES[0].exists():
        if WIRE.exists():
            return
        sys.exit(f"{WIRE} is missing, and there is no {SOURCES[0]} to make it of")
    made_of = WIRE / "__init__.py"
    if (WIRE / "tables.py").exists() and made_of.exists() and all(made_of.stat().st_mtime > source.stat().st_mtime for source in SOURCES):
        return
    if shutil.which("flatc") is None:
        sys.exit("flatc is needed to build from the source tree: apt install flatbuffers-compiler")
    sys.path.insert(0, str(SCHEMA))
    from fbs import Schema, write_if_changed

    with tempfile.TemporaryDirectory() as scratch:
        # Python's imports follow the namespace, so it must be that of the package.
        text = SOURCES[0].read_text().replace("namespace baton.wire;", "namespace baton_client.wire;")
        schema = Path(scratch) / "api.fbs"
        schema.write_text(text)
        subprocess.run(["flatc", "--python", "-o", scratch, str(schema)], check=True)
        made = {file.name: file.read_text() for file in (Path(scratch) / "baton_client" / "wire").glob("*.py")}
    made["tables.py"] = tables_of(Schema(SOURCES[:1]))
    for name, text in made.items():  # file by file: another process may import them meanwhile
        write_if_changed(WIRE / name, text)
    for file in WIRE.glob("*.py"):
        if file.name not in made:
            file.unlink(missing_ok=True)
    made_of.touch()


if __name__ == "__main__":
    generate()
