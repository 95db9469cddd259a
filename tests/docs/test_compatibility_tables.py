"""docs/develop/tested-api-rows.md names the test of each row in the tables of docs/apis. Each row names an existing test, and every link
between the documents resolves."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
APIS = DOCS / "apis"
# Pages "move-from" are guides, which test_guides.py and the importers' tests follow; their sections name these.
PAGES = sorted(page for page in APIS.rglob("*.md") if not page.name.startswith("move-from-"))
APPENDIX = DOCS / "develop/tested-api-rows.md"
WITH_LINKS = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "sdk").glob("*/README.md"))]
FILE = re.compile(r"\b(?:test_\w+\.py|\w+_test\.cpp)\b")
FUNCTION = re.compile(r"`(?:test_\w+\.py: )?(test_\w+)`")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
ALL_ROWS = "(all rows)"
# First cell of a head -> its rows are links to other pages, which have the tests.
WITHOUT_A_PROMISE = {"you want to"}
CELL_MAX = 120


def written():
    """The existing tests: (files, functions)."""
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
    """The anchor of a heading, as the forge makes it."""
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower().replace("`", "")
    return re.sub(r"[^\w\- ]", "", bare).replace(" ", "-")


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def sections(text):
    """(title, the text up to the next heading of any level)"""
    parts = re.split(r"^#+ (.*)$", without_code(text), flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def tables(body):
    """Each table as its lines, without the rule below the head."""
    found, last = [], -2
    for number, line in enumerate(body.splitlines()):
        if line.startswith("|"):
            if number != last + 1:
                found.append([])
            found[-1].append(line)
            last = number
    return [[lines[0], *lines[2:]] for lines in found]


def cells(row):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def first_cell(row):
    """A row's name in the appendix: its first cell, with the texts of links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cells(row)[0])


def page_name(page):
    return page.relative_to(APIS).as_posix()


def appendix(text):
    """{page: {section: {first cell: the tests that are named}}}"""
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        page, rest = part.split("\n", 1)
        for piece in re.split(r"^### ", rest, flags=re.M)[1:]:
            title, body = piece.split("\n", 1)
            rows = found.setdefault(page.strip(), {}).setdefault(title.strip(), {})
            for table in tables(body):
                for row in table[1:]:
                    rows[first_cell(row)] = rows.get(first_cell(row), "") + " " + cells(row)[1]
    return found


TESTED = appendix(APPENDIX.read_text())


def rows_without_a_test(body, tested):
    """The rows of a section's tables that its part of the appendix does not cover."""
    if names_a_test(tested.get(ALL_ROWS, "")):
        return []
    promised = [row for table in tables(body) if first_cell(table[0]) not in WITHOUT_A_PROMISE for row in table[1:]]
    return [row for row in promised if not names_a_test(tested.get(first_cell(row), ""))]


def rows_that_are_gone(body, tested):
    there = {first_cell(row) for table in tables(body) for row in table[1:]} | {ALL_ROWS}
    return [name for name in tested if name not in there]


def test_every_test_that_is_named_is_there():
    files, functions = named(APPENDIX.read_text())
    assert len(files) > 300 and sorted({f for f in files if f not in FILES} | {f for f in functions if f not in FUNCTIONS}) == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_row_has_its_test(page):
    tested = TESTED.get(page_name(page), {})
    missing = [f"{title}: {row[:140]}" for title, body in sections(page.read_text()) for row in rows_without_a_test(body, tested.get(title, {}))]
    assert "\n".join(missing) == ""


def test_the_appendix_has_no_row_that_is_gone():
    by_page = {page_name(page): dict(sections(page.read_text())) for page in PAGES}
    gone = [f"{page}: {title}" for page, tested in TESTED.items() for title in tested if title not in by_page.get(page, {})]
    gone += [f"{page}: {title}: {name}" for page, tested in TESTED.items() for title, rows in tested.items()
             for name in rows_that_are_gone(by_page.get(page, {}).get(title, ""), rows)]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_users_pages_name_no_tests_and_no_cell_is_long(page):
    text = without_code(page.read_text())
    assert named(text) == ([], [])
    assert [cell for _, body in sections(text) for table in tables(body) for row in table for cell in cells(row) if len(cell) > CELL_MAX] == []


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
    assert names_a_test("`test_every_row_has_its_test`") and names_a_test("test_compatibility_tables.py")
    assert not names_a_test("`test_of_nothing`, nothing_test.cpp")
    body = "| a | notes |\n| --- | --- |\n| [1](there) | |\n| 2 \\| 3 | refused |\n| 4 | |\n"
    text = "## p.md\n\n### s\n\n| row | tests |\n| --- | --- |\n| 1 | `test_every_row_has_its_test` |\n| 2 \\| 3 | `test_of_nothing` |\n| 5 | test_compatibility_tables.py |\n"
    tested = appendix(text)["p.md"]["s"]
    assert rows_without_a_test(body, tested) == ["| 2 \\| 3 | refused |", "| 4 | |"] and rows_that_are_gone(body, tested) == ["5"]
    assert rows_without_a_test(body, {ALL_ROWS: "test_compatibility_tables.py"}) == []
    assert rows_without_a_test("| you want to | page |\n| --- | --- |\n| 1 | |\n", {}) == []
    assert anchor("vLLM's /generate") == "vllms-generate" and anchor("`[[workers]]`, and all") == "workers-and-all"
