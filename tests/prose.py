"""Language as a test: comments, docstrings, messages and documents in plain English, names in the terms of docs/develop/glossary.md. Prints each
offence; exit status 1 if there is one. `python3 tests/prose.py [PATH...]`."""
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SENTENCE_WORDS_MAX = 28  # 20 is the aim
CODE = (".cpp", ".hpp", ".cu", ".cuh")
# Bodies of decisions stay as they were written.
AS_WRITTEN = ("docs/decisions/0",)
OPENING = re.compile(r"^(?:Of|What|Who|Whoever|Whose|Whom|Those|Whatever)\s+[a-z]")
WORD = re.compile(r"\b(?:told|tells?|telling|heard|hears?|nobody|whoever|whomever|(?:go|goes|gone|going) on with|for ever|says? so|said so)\b", re.I)
# Parts of identifiers that the field has another word for.
NAME_PARTS = {"desk", "desks", "keeper", "doorkeeper", "reception", "lineup", "dialog", "retell", "retold", "told", "heard", "tell", "tells", "hear",
              "whoever", "undead", "seat", "seats", "said", "board"}
STRING = r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
TOKEN = re.compile(rf"(?:{STRING})|//[^\n]*|/\*(?:.|\n)*?\*/|^[ \t]*#[^\n]*|(?P<name>[A-Za-z_]\w*)", re.M)


def comment_blocks(text, mark):
    """-> [(line, [text])] of runs of comment lines; `mark` is // or #."""
    found, last = [], None
    for number, line in enumerate(text.splitlines(), 1):
        whole = re.match(rf"\s*{mark}(?![!/])\s?(?!  )(.*)", line)  # what is indented further is an example or a table
        behind = None if whole else re.search(rf"[;{{}},)] +{mark} (.*)", line)
        if whole:
            if last != number - 1:
                found.append((number, []))
            found[-1][1].append(whole[1])
            last = number
        elif behind and '"' not in behind[1]:
            found.append((number, [behind[1]]))
    return found


def docstrings(text):
    """-> [(line, [text])] of a module and of its classes and functions; other strings are data."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None]
    return [(one.lineno, one.value.value.splitlines()) for one in first]


def paragraphs(text):
    """The same of a Markdown document: headings, paragraphs, list items and cells of tables; no code."""
    found, open_block, in_code = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        in_code ^= bare.startswith("```") or bare in ("<!-- results -->", "<!-- end of results -->")  # tables that a bench writes
        if in_code or not bare or bare.startswith(("```", "<")):
            open_block = False
        elif bare.startswith("#"):
            open_block = False
            found.append((number, [bare.lstrip("# ")]))
        elif bare.startswith("|"):
            open_block = False
            found += [(number, [cell.strip()]) for cell in bare.strip("|").split("|")]
        else:
            if not open_block or re.match(r"([*+-]|\d+\.)\s", bare):
                found.append((number, []))
                open_block = True
            found[-1][1].append(re.sub(r"^([*+-]|\d+\.)\s+", "", bare))
    return found


def blocks(path, text):
    if path.suffix in (*CODE, ".fbs"):
        return comment_blocks(text, "//")
    if path.suffix == ".md":
        return paragraphs(text)
    if path.suffix == ".py":
        return comment_blocks(text, "#") + docstrings(text)
    return comment_blocks(text, "#") if path.suffix in (".sh", ".toml", ".cmake") or path.name == "CMakeLists.txt" else []


def sentences(lines):
    text = " ".join(line.strip() for line in lines)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r'`[^`]*`|"[^"]*"', "CODE", text))
    return re.split(r'(?<=[.!?:;])\s+(?=[A-Z`"(\[])', text)


def is_drawing(lines):
    return bool(re.search(r"[│┌└─►▶→]|-->|<--|\+--", " ".join(lines)))


def faults(sentence):
    """-> why it is not plain, or nothing. A question may begin with What or Who."""
    if sentence.endswith("?"):
        return None
    if OPENING.match(sentence):
        return f"a sentence begins with {sentence.split()[0]}"
    word = WORD.search(sentence)
    if word:
        return f"'{word[0]}'"
    words = len(sentence.split())
    return f"a sentence of {words} words" if words > SENTENCE_WORDS_MAX else None


def banned_names(text):
    for match in TOKEN.finditer(text):
        if match["name"] and NAME_PARTS & set(match["name"].lower().split("_")):
            yield text[: match.start()].count("\n") + 1, match["name"]


def check(path):
    text = path.read_text(errors="replace")
    found = [(number, f"{why}: {sentence[:120]}") for number, lines in blocks(path, text) if not is_drawing(lines)
             for sentence in sentences(lines) if (why := faults(sentence))]
    if path.suffix in CODE:
        found += [(number, f"the name '{name}' (docs/develop/glossary.md)") for number, name in banned_names(text)]
        if "tests" not in path.parts:
            found += [(number, f"'{word[0]}' in {string[:80]}") for number, string in people_read(text) if (word := WORD.search(string))]
    return found


def people_read(text):
    """-> [(line, string)] of C++ strings of several words: messages, log lines, help."""
    for match in TOKEN.finditer(text):
        if match[0].startswith('"') and " " in match[0].strip('" '):
            yield text[: match.start()].count("\n") + 1, match[0]


def is_left_out(name):
    return name.startswith(AS_WRITTEN)


def main(paths):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *(paths or ["."])], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split() if (ROOT / name).is_file() and (paths or not is_left_out(name))]
    offences = [f"{name}:{number}: {text}" for name in names for number, text in check(ROOT / name)]
    print("\n".join(offences))
    print(f"prose: {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
