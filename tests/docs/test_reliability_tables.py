"""docs/develop/tested-promises.md has a row for every fault, invariant and promise, each with tests that exist, or the reason why there is none."""
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import faults  # noqa: E402
from test_compatibility_tables import FILES, FUNCTIONS, ROOT, named, sections, tables  # noqa: E402

PAGE = ROOT / "docs/develop/tested-promises.md"
TITLES = {"Faults": [f"F{n}" for n in range(1, 25)], "Invariants": [f"I{n}" for n in range(1, 9)], "Promises of security": [f"S{n}" for n in range(1, 13)]}
REASON = re.compile(r"\b(not tested|Not tested|is not measured|Not of|Not 6 hours)\b[^|]{20,}")
FUZZ = {p.stem for p in (ROOT / "tests/fuzz").glob("*.cpp")}


def rows_of(title):
    body = dict(sections(PAGE.read_text()))[title]
    table, = tables(body)
    found = {}
    for row in table[1:]:  # a row without a name continues the one above
        name, _, tested = (cell.strip() for cell in row.strip("|").split("|"))
        current = name or current
        found[current] = f"{found[current]} {tested}" if not name else tested
    return found


@pytest.mark.parametrize("title", TITLES)
def test_every_one_has_its_row(title):
    assert list(rows_of(title)) == TITLES[title]


@pytest.mark.parametrize("title", TITLES)
def test_every_test_that_is_named_is_there_and_every_row_names_one_or_the_reason(title):
    wrong, former = [], False
    for name, text in rows_of(title).items():
        files, functions = named(text)
        wrong += [f"{name}: {f}" for f in files if f not in FILES] + [f"{name}: {f}" for f in functions if f not in FUNCTIONS]
        for row in re.findall(r"rows? ((?:`\w+`(?:, )?)+)", text):
            wrong += [f"{name}: row {r}" for r in re.findall(r"\w+", row) if r not in faults.ROWS]
        for targets in re.findall(r"fuzz targets? ((?:`\w+`(?:, )?)+)", text):
            wrong += [f"{name}: fuzz target {t}" for t in re.findall(r"\w+", targets) if t not in FUZZ]
        is_covered = bool(files or functions or REASON.search(text) or ("the same" in text and former))
        if not is_covered:
            wrong.append(f"{name}: neither a test nor a reason")
        former = is_covered
    assert wrong == []


def test_a_reason_is_more_than_a_word():
    assert not REASON.search("not tested")
    assert REASON.search("not tested here: it takes the kernel's netem")


@pytest.mark.parametrize("page", sorted((ROOT / "docs/operate").glob("*.md")), ids=lambda p: p.stem)
def test_the_tests_that_an_operators_page_names_exist(page):
    files, functions = named(page.read_text())
    assert sorted({f for f in files if f not in FILES} | {f for f in functions if f not in FUNCTIONS}) == []
