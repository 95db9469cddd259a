"""tests/function_lines.py finds functions in C++ and counts their lines."""
import pytest
from function_lines import functions_of

LONG = "int f(int a) {\n" + "  a += 1;\n" * 3 + "  return a;\n}\n"


@pytest.mark.parametrize("text, found", [
    (LONG, [(1, 6)]),
    ("// {\nvoid g() noexcept {\n  const char* s = \"}\";\n}\n", [(2, 3)]),
    ("struct s {\n  s() : a(1) {\n  }\n  int a;\n};\n", [(2, 2)]),
    ("template <class T>\nauto h(T t,\n       int b) -> int {\n  return b;\n}\n", [(1, 5)]),
    ("void k() {\n  auto l = [](int x) {\n    return x;\n  };\n  if (l(1)) {\n  }\n}\n", [(1, 7)]),
    ('void m() {\n  f(R"x(\n}}\n)x");\n}\n', [(1, 5)]),
    ("namespace n {\nconst int a[] = {1, 2};\nenum class e { one };\n}\n", []),
])
def test_functions_are_found_with_their_lengths(text, found):
    assert functions_of(text) == found
