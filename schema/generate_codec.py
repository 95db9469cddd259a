"""Generates C++ of the tables of schema/api.fbs and wire.fbs: the codec, and the members of structs.

Run as `generate_codec.py OUT API_FBS WIRE_FBS`; `--list` prints the names of the files alone.

Writes OUT/codec_tables.hpp and .cpp with a put and a get for each table and struct that is not
`by_hand`. OUT/members/NAME.inc has the members of the C++ struct, which its header includes, unless
the table has `members_by_hand`. OUT/finite_fields.hpp names the floats of `finite` tables. The attributes are explained at the top of api.fbs.
"""

import sys
from pathlib import Path

from fbs import Schema, snake, write_if_changed

SCALARS = {
    "bool": "bool",
    "ubyte": "std::uint8_t",
    "ushort": "std::uint16_t",
    "int": "std::int32_t",
    "uint": "std::uint32_t",
    "long": "std::int64_t",
    "ulong": "std::uint64_t",
    "float": "float",
    "double": "double",
}


class Generator:
    def __init__(self, schema):
        self.schema = schema
        self.tables = [table for table in schema.tables if "by_hand" not in table.attributes]

    # -- members --

    def cpp_type(self, field):
        kind = self.schema.kinds.get(field.type)
        if field.is_duration:
            return "std::chrono::milliseconds"
        if "type" in field.attributes:
            one = f"baton::{field.attributes['type']}"
        elif kind in ("table", "struct"):
            one = f"baton::{self.schema.by_name[field.type].struct}"
        elif kind:
            one = f"baton::{snake(field.type)}"
        else:
            one = SCALARS.get(field.type, "std::string")
        if field.is_vector:
            return "std::string" if field.type == "ubyte" else f"std::vector<{one}>"
        return f"std::optional<{one}>" if "optional" in field.attributes else one

    def default(self, field):
        """The initializer of the member: every member has one, so none has to be named."""
        if field.is_vector or field.is_duration or self.schema.kinds.get(field.type) in ("table", "struct", "union"):
            return "{}"
        if field.type in self.schema.enums:
            values = self.schema.enums[field.type].values
            name = field.default or next(name for name, number in values.items() if number == 0)
            return f" = {self.cpp_type(field)}::{name}"
        return f" = {field.default}" if field.default else "{}"

    def member_lines(self, table):
        for field in table.fields:
            for comment in field.before:
                yield f"// {comment}"
            behind = f" // {field.behind}" if field.behind else ""
            yield f"{self.cpp_type(field)} {field.member}{self.default(field)};{behind}"

    def finite_lines(self, table):
        yield "template <class Visit>"
        yield f"void for_each_finite(const {table.struct}& m, Visit visit) {{"
        for field in table.fields:
            if field.type in ("float", "double"):
                yield f'  visit("{field.member}", m.{field.member});'
        yield "}"

    # -- codec --

    def limit(self, field):
        return field.attributes.get("limit", "reason_bytes_max" if "reason" in field.attributes else "name_bytes_max")

    def put(self, field):
        """The call that writes a field which needs an offset, or None."""
        of, limit = f"m.{field.member}", self.limit(field)
        kind = self.schema.kinds.get(field.type)
        if field.is_vector:
            if field.type == "string":
                return f"out.texts({of}, {limit}, {field.attributes.get('each', 'name_bytes_max')})"
            if field.type == "ubyte":
                return f"out.bytes({of}, {limit})"
            if kind == "struct":
                return f"out.structs<wire::{field.type}>({of}, {limit})"
            return f"out.{'tables' if kind == 'table' else 'numbers'}({of}, {limit})"
        if field.type == "string":
            return f"out.reason({of})" if "reason" in field.attributes else f"out.text({of}, {limit})"
        if kind == "union":
            return f"put_{snake(field.type)}(out, {of})"
        return f"out.table({of})" if kind == "table" else None

    def get(self, table, field):
        source, to, says = f"from.{field.name}()", f"to.{field.member}", f'"{table.says(field)}"'
        limit, kind = self.limit(field), self.schema.kinds.get(field.type)
        if field.is_vector:
            what = {"string": "texts", "ubyte": "bytes"}.get(field.type)
            what = what or {"struct": "structs", "table": "tables"}.get(kind, "numbers")
            each = f", {field.attributes.get('each', 'name_bytes_max')}" if what == "texts" else ""
            yield f"in.{what}({source}, {to}, {limit}{each}, {says});"
        elif field.type == "string":
            yield f"in.text({source}, {to}, {limit}, {says});"
        elif kind == "union":
            yield f"get_{snake(field.type)}(in, from.{field.name}_type(), {source}, {to});"
        elif kind == "table":
            yield f"in.table({source}, {to});"
        elif kind == "enum":
            yield f"in.one_of({source}, {to}, {says});"
        elif field.type in ("float", "double") and "finite" in table.attributes:
            yield f"in.finite({source}, {to}, {says});"
        else:
            if "limit" in field.attributes:
                yield f"in.at_most({source}, {limit}, {says});"
            yield f"in.scalar({source}, {to}, {says});"

    def signatures(self, table):
        if table.kind == "struct":
            return (f"wire::{table.name} put(writer&, const {table.struct}& m)",
                    f"void get(reader& in, const wire::{table.name}& from, {table.struct}& to)")
        return (f"flatbuffers::Offset<wire::{table.name}> put(writer& out, const {table.struct}& m)",
                f"void get(reader& in, const wire::{table.name}& from, {table.struct}& to)")

    def value(self, field):
        kind = self.schema.kinds.get(field.type)
        if kind == "union":
            return [f"{field.name}.type", f"{field.name}.table"]
        if field.is_vector or field.type == "string" or kind == "table":
            return [field.name]
        if kind == "enum":
            return [f"static_cast<wire::{field.type}>(m.{field.member})"]
        return [f"scalar_of(m.{field.member})"]

    def bodies(self, table):
        put, get = self.signatures(table)
        values = [value for field in table.fields for value in self.value(field)]
        yield f"{put} {{"
        if "absent_if_default" in table.attributes:
            yield f"  if (m == {table.struct}{{}})"
            yield "    return 0;"
        if table.kind == "struct":
            yield f"  return wire::{table.name}({', '.join(values)});"
        else:
            for field in table.fields:
                if call := self.put(field):
                    yield f"  const auto {field.name} = {call};"
            yield f"  return wire::Create{table.name}(out.buffer, {', '.join(values)});"
        yield "}"
        yield f"{get} {{"
        for field in table.fields:
            for line in self.get(table, field):
                yield f"  {line}"
        yield "}"

    def files(self):
        tables = self.tables
        head = "// Made by schema/generate_codec.py of schema/api.fbs and wire.fbs.\n"
        declared = "\n".join(f"{one};" for table in tables for one in self.signatures(table))
        defined = "\n".join(line for table in tables for line in self.bodies(table))
        files = {
            "codec_tables.hpp": f'{head}#pragma once\n#include "schema/messages.hpp"\n'
            f'#include "schema/wire_generated.h"\nnamespace baton::codec {{\nclass writer;\nclass reader;\n'
            f"{declared}\n}}\n",
            "codec_tables.cpp": f'{head}#include "schema/archive_url.hpp"\n#include "schema/codec/codec_parts.hpp"\n'
            f"namespace baton::codec {{\nusing namespace limits;\n{defined}\n}}\n",
        }
        finite = [line for table in tables if "finite" in table.attributes for line in self.finite_lines(table)]
        files["finite_fields.hpp"] = "\n".join([
            f'{head}#pragma once\n#include "schema/messages.hpp"\nnamespace baton {{',
            "// Calls visit(name, value) for each field that must be finite.", *finite, "}\n"])
        for table in tables:
            if "members_by_hand" not in table.attributes:
                lines = [*head.splitlines(), *self.member_lines(table)]
                files[f"members/{table.struct}.inc"] = "".join(f"  {line}\n" for line in lines)
        return files


if __name__ == "__main__":
    made = Generator(Schema(sys.argv[2:])).files()
    if sys.argv[1] == "--list":
        print(";".join(made), end="")
    else:
        for name, text in made.items():
            write_if_changed(Path(sys.argv[1]) / name, text)
