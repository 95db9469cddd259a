"""What ./check clang-tidy reads of a build, and that it finds a fault."""
import importlib.util
import pathlib
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def module():
    spec = importlib.util.spec_from_file_location("clang_tidy", ROOT / "tests/clang_tidy.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


TIDY = module()


@pytest.fixture
def tree(tmp_path):
    """A tree with a unit of two files, a file that is compiled alone, one of the tests, and a generated one."""
    texts = {"runtime/a.cpp": "int a();\n// text\n" + "//\n" * 40, "runtime/b.cpp": "int b();\n", "gateway/alone.cpp": "int c();\n", "tests/t.cpp": "",
             "build/dev/generated/units/x_1.cpp": '#include "runtime/a.cpp"\n#include "runtime/b.cpp"\n', "build/dev/generated/made.cpp": ""}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def entries(tree):
    files = [tree / name for name in ("gateway/alone.cpp", "tests/t.cpp", "build/dev/generated/units/x_1.cpp", "build/dev/generated/made.cpp")]
    return [{"file": str(f), "directory": str(tree), "command": f"/usr/bin/c++ -I{tree} -Wall -Werror -std=c++20 -o x.o -c {f}"} for f in files]


def test_units_and_files_of_the_product_are_read_the_largest_first(tree):
    rows = TIDY.chosen(entries(tree), set(), tree)
    assert [pathlib.Path(file).name for file, _, _ in rows] == ["x_1.cpp", "alone.cpp"]
    assert rows[0][2] == [f"-I{tree}", "-std=c++20", "-Wno-everything"]


def test_a_named_file_chooses_the_unit_that_it_is_in(tree):
    assert [pathlib.Path(row[0]).name for row in TIDY.chosen(entries(tree), {"runtime/b.cpp"}, tree)] == ["x_1.cpp"]
    assert not TIDY.chosen(entries(tree), {"runtime/no_such.cpp"}, tree)


def test_launchers_of_a_compiler_are_not_flags():
    assert TIDY.flags_of("env A=1 /usr/bin/ccache /usr/bin/clang++-14 -DX -c a.cpp -o a.o", "a.cpp") == ["-DX", "-Wno-everything"]


def test_an_offence_in_a_header_of_two_units_counts_once():
    said = "/tree/runtime/a.hpp:3:7: error: a fault [bugprone-x,-warnings-as-errors]\n  code();\n  ^\n"
    first, second = TIDY.offences_in(said, "/tree"), TIDY.offences_in(said, "/tree")
    assert list({**first, **second}.values()) == [said.removeprefix("/tree/").rstrip()]


@pytest.mark.skipif(not shutil.which(TIDY.TIDY), reason="./check clang-tidy installs it")
@pytest.mark.parametrize("name", ["runtime/a.cpp", "runtime/a.hpp"])
def test_a_planted_fault_is_found_in_a_file_and_in_a_header(tree, name):
    shutil.copy(ROOT / ".clang-tidy", tree)
    (tree / "runtime/a.cpp").write_text('#include "runtime/a.hpp"\n')
    (tree / "runtime/a.hpp").write_text("#pragma once\n#include <string>\n#include <utility>\n")
    with (tree / name).open("a") as file:
        file.write("inline auto twice(std::string s) {\n  auto to = std::move(s);\n  return to + s;\n}\n")
    found, trouble, _ = TIDY.tidied(TIDY.chosen(entries(tree), {"runtime/a.cpp"}, tree)[0])
    assert not trouble and [line.rpartition("[")[2] for line in found] == ["bugprone-use-after-move,-warnings-as-errors]"], found


@pytest.mark.skipif(not shutil.which(TIDY.TIDY), reason="./check clang-tidy installs it")
def test_a_file_that_clang_does_not_take_is_an_offence(tree):
    shutil.copy(ROOT / ".clang-tidy", tree)
    (tree / "runtime/b.cpp").write_text("int b() { return c; }\n")
    found, _, _ = TIDY.tidied(TIDY.chosen(entries(tree), {"runtime/b.cpp"}, tree)[0])
    assert len(found) == 1 and "undeclared identifier 'c'" in next(iter(found))
