"""docs/reference/configuration.md has every key that cluster/config/readers reads, or docs/apis has it (workers); and no other key."""
import pathlib
import re

from test_compatibility_tables import sections, tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/configuration.md").read_text()
WORKERS = "".join(path.read_text() for path in (ROOT / "docs/apis").rglob("*.md"))
READ = re.compile(r'\b(?:read\w*|array_of\w*)\(\s*"([a-z_]+)"')
# Headings of tables that list no keys.
OTHER = {"device", "`control_mode`"}


def keys_of_code():
    return {key for path in (ROOT / "cluster/config/readers").glob("*.cpp") for key in READ.findall(path.read_text())}


def keys_of_page():
    found = set()
    for _, body in sections(PAGE):
        for head, *rows in tables(body):
            if head.strip("| ").split(" |")[0] not in OTHER:
                found |= {key for row in rows for key in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    return found


def test_every_key_of_the_code_is_on_a_page():
    keys = keys_of_code()
    assert len(keys) > 80
    assert sorted(key for key in keys if f"`{key}`" not in PAGE and not re.search(rf"\b{key}\b", WORKERS)) == []


def test_every_key_of_the_page_is_one():
    source = "".join(path.read_text() for path in (ROOT / "cluster/config").rglob("*.[ch]pp"))
    assert sorted(key for key in keys_of_page() if f'"{key}"' not in source) == []
