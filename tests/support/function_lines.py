"""Finds the functions of a C++ file with their lengths. Good enough for sources that clang-format has formatted: no parser."""
import re

COMMENT_OR_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*', re.M | re.S)
RAW_TEXT = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)
HEAD_OF_FUNCTION = re.compile(r"\)\s*(?:const|noexcept(?:\([^)]*\))?|override|final|mutable|&|->[^;{}]*|\s)*$|\)\s*(?:noexcept)?\s*:\s*\w+[({]")
HEAD_OF_STATEMENT = re.compile(r"\}?\s*(?:if|for|while|switch|else|do|catch|try)\b")


def blanked(text):
    """The text without comments, literals and preprocessor lines, on the same lines."""
    for pattern in (RAW_TEXT, COMMENT_OR_TEXT):
        text = pattern.sub(lambda m: "\n" * m[0].count("\n") + " ", text)
    return text


def functions_of(text):
    """-> (first line, lines) of each function. A lambda or local class counts as a part of its function."""
    found, open_braces, line, head_begin = [], [], 1, 0
    text = blanked(text)
    for at, c in enumerate(text):
        if c == "\n":
            line += 1
        elif c == "{":
            head = text[head_begin:at].strip()
            is_inside = any(is_function for is_function, _ in open_braces)
            is_function = bool(HEAD_OF_FUNCTION.search(head)) and not HEAD_OF_STATEMENT.match(head) and not is_inside
            open_braces.append((is_function, line - head.count("\n")))
        elif c == "}" and open_braces:
            is_function, begin = open_braces.pop()
            if is_function:
                found.append((begin, line - begin + 1))
        if c in "{};":
            head_begin = at + 1
    return found
