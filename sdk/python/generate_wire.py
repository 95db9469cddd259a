"""Generates baton_client/wire/ from schema/api.fbs with flatc. Run by setup.py and by CMake.

A source distribution already contains the generated code and needs neither flatc nor the schema.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "schema" / "api.fbs"
WIRE = HERE / "baton_client" / "wire"


def generate() -> None:
    if not SCHEMA.exists():
        if WIRE.exists():
            return
        sys.exit(f"{WIRE} is missing, and there is no {SCHEMA} to make it of")
    made_of = WIRE / "__init__.py"
    if made_of.exists() and made_of.stat().st_mtime > SCHEMA.stat().st_mtime:
        return
    if shutil.which("flatc") is None:
        sys.exit("flatc is needed to build from the source tree: apt install flatbuffers-compiler")
    with tempfile.TemporaryDirectory() as scratch:
        # Python's imports follow the namespace, so it must be that of the package.
        text = SCHEMA.read_text().replace("namespace baton.wire;", "namespace baton_client.wire;")
        schema = Path(scratch) / "api.fbs"
        schema.write_text(text)
        subprocess.run(["flatc", "--python", "-o", scratch, str(schema)], check=True)
        shutil.rmtree(WIRE, ignore_errors=True)
        shutil.copytree(Path(scratch) / "baton_client" / "wire", WIRE)
    made_of.touch()


if __name__ == "__main__":
    generate()
