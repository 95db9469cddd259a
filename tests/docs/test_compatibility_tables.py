"""The tables of docs/apis say what is tested, and by which test: each row of theirs names one that exists, or its section does; and every link
between the documents leads somewhere."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "apis" / f"{name}.md" for name in ("generation", "keys/tgi", "keys/torchserve", "keys/triton", "keys/vllm", "openai", "start-lines", "triton", "workers")]
WITH_LINKS = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]
FILE = re.compile(r"\b(?:test_\w+\.py|\w+_test\.cpp)\b")
FUNCTION = re.compile(r"`(?:test_\w+\.py: )?(test_\w+)`")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")


def written():
    """What tests there are: (files, functions)."""
    python = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("sdk/python/tests/test_*.py")]
    return ({p.name for p in [*python, *ROOT.glob("tests/**/*_test.cpp")]},
            {name for p in python for name in re.findall(r"^def (test_\w+)", p.read_text(), re.M)})


FILES, FUNCTIONS = written()


def named(text):
    return FILE.findall(text), FUNCTION.findall(FILE.sub("", text))


def names_a_test(text):
    files, functions = named(text)
    return any(f in FILES for f in files) or any(f in FUNCTIONS for f in functions)


def anchor(title):
    """As the forge makes it of a heading."""
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower().replace("`", "")
    return re.sub(r"[^\w\- ]", "", bare).replace(" ", "-")


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def sections(text):
    """(title, what stands beneath it up to the next heading of any level)"""
    parts = re.split(r"^#+ (.*)$", without_code(text), flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def tables(body):
    """Each as its lines; the first is the head, the rule beneath it is left out."""
    found, last = [], -2
    for number, line in enumerate(body.splitlines()):
        if line.startswith("|"):
            if number != last + 1:
                found.append([])
            found[-1].append(line)
            last = number
    return [[lines[0], *lines[2:]] for lines in found]


def rows_without_a_test(body, table, by_title):
    outside = "\n".join(line for line in body.splitlines() if not line.startswith("|"))
    if "tested by" not in table[0] and re.search(r"[Tt]ested by .*", outside) and names_a_test(outside):
        return []
    missing, former = [], False
    for row in table[1:]:
        elsewhere = any(not file and names_a_test(by_title.get(place, "")) for file, place in LINK.findall(row) if place)
        is_told = names_a_test(row) or elsewhere or ("the same" in row and former)
        if not is_told:
            missing.append(row)
        former = is_told
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_test_that_is_named_is_there(page):
    files, functions = named(page.read_text())
    assert sorted({f for f in files if f not in FILES} | {f for f in functions if f not in FUNCTIONS}) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_row_names_its_test_or_its_section_does(page):
    all_of_them = sections(page.read_text())
    by_title = {anchor(title): body for title, body in all_of_them}
    missing = [f"{title}: {row[:140]}" for title, body in all_of_them for table in tables(body) for row in rows_without_a_test(body, table, by_title)]
    assert "\n".join(missing) == ""


def test_every_link_between_the_documents_leads_somewhere():
    titles = {page: {anchor(t) for t, _ in sections(page.read_text())} for page in WITH_LINKS}
    broken = []
    for page in WITH_LINKS:
        for file, place in LINK.findall(without_code(page.read_text())):
            to = (page.parent / file).resolve() if file else page
            if not to.exists() or (place and to in titles and place not in titles[to]):
                broken.append(f"{page.relative_to(ROOT)}: {file}#{place}")
    assert broken == []


def test_the_check_itself_finds_what_is_wrong():
    assert names_a_test("`test_every_test_that_is_named_is_there`") and names_a_test("test_compatibility_tables.py")
    assert not names_a_test("`test_of_nothing`, nothing_test.cpp")
    body = "| a | works: tested by |\n| --- | --- |\n| 1 | `test_every_test_that_is_named_is_there` |\n| 2 | the same |\n| 3 | refused |\n| 4 | [below](#there) |\n"
    table, = tables(body)
    assert rows_without_a_test(body, table, {"there": "Tested by test_compatibility_tables.py."}) == ["| 3 | refused |"]
    assert rows_without_a_test(body, table, {})[1:] == ["| 4 | [below](#there) |"]
    assert anchor("vLLM's /generate") == "vllms-generate" and anchor("`[[workers]]`, and all") == "workers-and-all"
