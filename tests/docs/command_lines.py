"""The command lines in the documents: those in code blocks and those within a sentence or a cell. Each is split into the commands that a
shell would start. Each command is checked against the tree: paths, subcommands, flags, levels, files."""
import dataclasses
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()
CLUSTER = BUILD / "cluster/cluster"
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "decisions" not in p.parts), *sorted((ROOT / "sdk").glob("*/README.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
WITH_COMMANDS = {"", "bash", "sh", "console"}
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PROMPT = re.compile(r"^(?:[\d.]+ )?\$ ")
OWN = re.compile(r"cluster$|\./(?:up|check)$|build/\S+$|(?:tests|examples|scripts)/\S+\.sh$|gpu_toml$|gpu_bench$|ask$")
TOOLS = {"python3", "$P", "curl", "cmake", "pip", "build/T/bin/python", "compute-sanitizer", "nsys"}
SHELL = {"export", "mkdir", "cp", "cat", "kill", "bash", "cd", "."}
# Replacements for the pages' own shell functions.
FUNCTIONS = {"gpu_bench": "build/gpu/tests/bench/gpu_bench", "ask": None, "gpu_toml": None}
DOCTEST_FLAGS = {"-tc", "-tce"}
# Level of ./check -> the program whose flags it takes.
LEVELS = {"bench": "tests/bench/run.py", "faults": "tests/bench/faults.py", "growth": "tests/bench/growth.py", "scale": "tests/bench/scale.py",
          "first_minute": "tests/bench/first_minute.py",
          "planted": "tests/sim/planted.py", "clang-tidy": "tests/clang_tidy.py", "asan": "", "tsan": "", "fuzz": "tests/check.py fuzz", "sim": "", "unit": "", "system": "", "gpu": "", "frameworks": "", "all": "", "quick": ""}


@dataclasses.dataclass(frozen=True)
class Line:
    page: str
    text: str
    is_block: bool
    section: str = ""


def words_of(text):
    """The words as a shell reads them, with operators as separate words; None: a quote is open."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=";&|<>()")
    reader.whitespace_split, reader.commenters = True, "#"
    try:
        return list(reader)
    except ValueError:
        return None


def commands_of(text):
    """The commands of a line as lists of words, without assignments, redirections and programs such as sudo in front."""
    found, words = [], []
    skip = False
    for word in [*(words_of(text.replace("$(", "( ").replace("$'", "'")) or []), ";"]:
        if skip:  # the file of a redirection
            skip = False
        elif re.fullmatch(r"[<>]+&?|&>", word):
            skip = True
            if words and re.fullmatch(r"\d", words[-1]):  # the 2 of 2>
                words.pop()
        elif re.fullmatch(r"[;&|()]+", word):
            if words:
                found.append(words)
            words = []
        elif words or not re.fullmatch(r"\w+=.*", word, re.S):
            words.append(word)
    for one in list(found):
        if one[0] == "bash" and "-c" in one:
            found.extend(commands_of(one[one.index("-c") + 1]))
        if one[0] in ("compute-sanitizer", "export"):
            found.append([w for w in one[1:] if one[0] != "export"])
    return [one for one in found if one]


def is_of_the_tree(words):
    return bool(OWN.match(words[0])) or words[0] in TOOLS


def lines_of_block(body):
    """Joins lines at an open quote or a final backslash. From a block with prompts it takes only the text behind them."""
    lines = body.splitlines()
    if any(PROMPT.match(line) for line in lines):
        return [PROMPT.sub("", line) for line in lines if PROMPT.match(line)]
    joined, open_one = [], ""
    for line in lines:
        open_one = f"{open_one}\n{line}" if open_one else line.strip()
        if words_of(open_one) is not None:
            joined.append(open_one.replace("\\\n", " "))
            open_one = ""
    return [line for line in joined if line]


def is_command(text):
    first = commands_of(text)
    known = [one for one in first if is_of_the_tree(one)]
    return bool(known) and (is_of_the_tree(first[0]) or first[0][0] in SHELL)


def lines_of(page):
    """Every command line of a page."""
    text, name, found = page.read_text(), page.relative_to(ROOT).as_posix(), []
    section = lambda at: (re.findall(r"^#+ (.*)$", text[:at], re.M) or [""])[-1]
    for block in BLOCK.finditer(text):
        if block[1] in WITH_COMMANDS:
            found += [Line(name, line, True, section(block.start())) for line in lines_of_block(block[2]) if is_command(line)]
    prose = BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    for span in SPAN.finditer(prose):
        if is_command(span[1].replace(r"\|", "|")):
            found.append(Line(name, span[1].replace(r"\|", "|"), False, section(span.start())))
    return found


def all_lines():
    return [line for page in PAGES for line in lines_of(page)]


@functools.cache
def help_of(*words):
    """The help text of a program."""
    done = subprocess.run([*words, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def unbracketed(words):
    return [w.strip("[]") for w in words if w.strip("[]")]


def flags_of(words):
    return [w.partition("=")[0] for w in words if re.match(r"--?[a-zA-Z]", w)]


def has_flag(flag, text):
    return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text) is not None


def wrong_flags(words, text, whose):
    return [f"{whose} has no {flag}" for flag in flags_of(words) if not has_flag(flag, text)]


def wrong_files(words):
    """A path below a folder of this tree, but not of a generated file."""
    return [f"there is no {w}" for w in words if re.match(r"(examples|tests|scripts|docs|sdk|schema)/", w) and not (ROOT / w).exists()]


def wrong_in_cluster(words):
    words = unbracketed(words)
    if not words or words[0].startswith("-"):
        return wrong_flags(words, help_of(CLUSTER), "cluster")
    depth = 2 if words[0] == "model" and len(words) > 1 else 1
    own = words[depth:]
    if words[0] == "import":  # behind it stands the command of another server
        own = own[: next((i for i, w in enumerate(own) if w in ("vllm", "text-generation-launcher", "docker", "tritonserver", "torchserve")), len(own))]
    help_text = help_of(CLUSTER, *words[:depth])
    for i, word in enumerate(words[:depth]):
        if not re.search(rf"^ +{re.escape(word)}\b", help_of(CLUSTER, *words[:i]), re.M):
            return [f"cluster has no {' '.join(words[:depth])}"]
    return wrong_flags(own, help_text, f"cluster {words[0]}") + wrong_files(own)


def wrong_in_check(words):
    words = unbracketed(words)
    if not words:
        return []
    level, rest = words[0], words[1:]
    if level not in LEVELS:
        return [] if level == "--help" else [f"./check has no level {level}"]
    tool = LEVELS[level]
    if level == "sim":
        help_text = (ROOT / "tests/sim/main.cpp").read_text()
    else:
        help_text = help_of(sys.executable, *tool.split()) if tool else ""
    wrong = wrong_flags(rest, help_text, f"./check {level}")
    if "--only" in rest and level == "bench":
        wrong += [f"./check bench has no section {name}" for name in rest[rest.index("--only") + 1].split(",") if not has_flag(name, help_text) and name != "SECTION"]
    return wrong


def wrong_in_build(words):
    """A build makes build/PRESET/FOLDER/NAME if FOLDER's CMakeLists.txt names it."""
    path = pathlib.PurePosixPath(words[0])
    parts = path.parts
    presets = re.findall(r'"name": "([\w-]+)"', (ROOT / "CMakePresets.json").read_text())
    if len(parts) < 3 or parts[1] not in presets:
        return [] if len(words) == 1 else [f"{path} is no program of a build"]
    folder = ROOT.joinpath(*parts[2:-1])
    declared = (folder / "CMakeLists.txt").read_text() if (folder / "CMakeLists.txt").is_file() else ""
    if not re.search(rf"\w+\(\s*{re.escape(path.name)}\b", declared):
        return [] if len(words) == 1 and (ROOT.joinpath(*parts[2:])).is_dir() else [f"no build makes {path}"]
    if path.parts[2:] == ("cluster", "cluster"):
        return wrong_in_cluster(words[1:])
    sources = "".join(p.read_text() for p in folder.rglob("*.cpp"))
    return [f"{path.name} has no {flag}" for flag in flags_of(words[1:]) if f'"{flag}"' not in sources and flag not in DOCTEST_FLAGS]


def wrong_in_python(words):
    if words[:2] == ["-m", "venv"] or not words or words[0] == "-c":
        return []
    if words[:2] == ["-m", "pdb"]:  # of Python itself
        return wrong_in_python(words[2:])
    if words[0] == "-m":
        module = ROOT / "sdk/python" / (words[1].replace(".", "/") + ".py")
        if not module.exists():
            return [f"there is no module {words[1]}"]
        return wrong_flags(unbracketed(words[2:]), module.read_text() + (module.parent / "tensor_model.py").read_text(), words[1])
    if not (ROOT / words[0]).exists():
        return [f"there is no {words[0]}"]
    return wrong_flags(words[1:], help_of(sys.executable, words[0]), words[0])


def wrong_in_cmake(words):
    presets = re.findall(r'"name": "([\w-]+)"', (ROOT / "CMakePresets.json").read_text())
    wrong = []
    if "--preset" in words and words[words.index("--preset") + 1] not in presets:
        wrong.append(f"no preset {words[words.index('--preset') + 1]}")
    if "--target" in words:
        declared = "\n".join(p.read_text() for p in ROOT.glob("*/**/CMakeLists.txt") if "build" not in p.relative_to(ROOT).parts[:1])
        targets = [w for w in words[words.index("--target") + 1 :] if not w.startswith("-")]
        wrong += [f"no target {t}" for t in targets if not re.search(rf"\w+\(\s*{re.escape(t)}\b", declared)]
    return wrong


def wrong_in_pip(words):
    wrong = []
    for word in words:
        path, _, extra = word.rstrip("]").partition("[")
        wrong += wrong_files([path])
        if extra and not re.search(rf"^{extra} = ", (ROOT / path / "pyproject.toml").read_text(), re.M):
            wrong.append(f"{path} has no extra {extra}")
    return wrong


def wrong_in(words):
    """The faults of one command, as lines for people."""
    first, rest = words[0], words[1:]
    if first in FUNCTIONS:
        return wrong_in_build([FUNCTIONS[first], *rest]) if FUNCTIONS[first] else []
    if first == "cluster":
        return wrong_in_cluster(rest)
    if first == "./check":
        return wrong_in_check(rest)
    if first == "./up":
        return wrong_flags(unbracketed(rest), help_of(ROOT / "up"), "./up") + wrong_files(rest)
    if first.startswith("build/T/") or first == "$P" or first == "python3":
        return wrong_in_python(rest) if not first.endswith("/pip") else []
    if first.startswith("build/"):
        return wrong_in_build(words) if not first.startswith("build/nccl/") else []
    if first.endswith(".sh"):
        return wrong_files([first]) or wrong_flags(unbracketed(rest), help_of("bash", first), first)
    if first == "cmake":
        return wrong_in_cmake(rest)
    if first == "pip":
        return wrong_in_pip(rest)
    return []


def wrong_with(line):
    return [f"{line.page}: `{line.text}`: {wrong}" for words in commands_of(line.text) if is_of_the_tree(words) for wrong in wrong_in(words)]
