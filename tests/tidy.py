"""Style as a test: what a reader of this tree may rely on. Prints each offence; exit status 1 if there is one."""
import collections
import pathlib
import re
import subprocess
import sys

from support.function_lines import functions_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINE = ["schema", "runtime", "actors", "gateway", "cluster"]  # a file includes only from its own room or to its left
# The same inside a room: a folder includes only from itself and from those to its left.
INNER = {
    "cluster": ["files", "formats", "keys", "hub/ollama", "hub", "config", "config/readers", "config/imported", "bus", "process", "machines", "membership", "plan", "models/triton", "models/torchserve", "models", "import", "roles", "join", "roles/agent", "roles/gateway", "roles/shard", "roles/root", "commands"],
    "gateway": ["base", "request", "tracing", "auth", "config", "metrics", "state", "dispatch", "workers", "admission", "api/openai/calls", "api/openai/request", "api/openai/reply", "api/openai", "api/responses", "api/anthropic", "api/ollama", "api/llama_server", "api/tgi", "api/vllm", "api/worker", "api/kserve/calls", "api/kserve/models", "api/kserve/workers", "api/kserve", "api/torchserve", "connections", "websocket", "routes", "http", "grpc", "zmq", "server"],
    "runtime": ["model/tensors", "model", "model/gguf", "model/safetensors", "model/checkpoint/formats", "model/checkpoint", "model/open", "text/unicode", "text/vocabulary", "text/bpe", "text/pre_tokenizers", "text/tokenizer", "text/stream", "text/template/values", "text/template/syntax", "text/template", "text/template/builtins", "grammar/automata", "grammar/json_schema", "grammar", "schedule/kv", "schedule/workers", "schedule/context", "schedule/sequences", "schedule/tickets", "schedule/steps", "schedule", "engine", "collective", "cpu/panels", "cpu/kernels", "cpu/memory", "cpu/forward", "plugin", "gpu/device", "gpu/bodies", "gpu/kernels", "gpu/stage", "gpu/nccl", "gpu/torch"],
}
# Includes that still go the other way. Only remove rows.
INNER_EXCEPTIONS = {
    ("gateway/api/kserve/workers/kserve_worker.hpp", "gateway/grpc/grpc_wire.hpp"),
    ("gateway/request/request_check.hpp", "gateway/config/config.hpp"),
    ("gateway/metrics/kserve_metrics.hpp", "gateway/api/kserve/models/kserve_model.hpp"),
    ("gateway/metrics/metrics.cpp", "gateway/api/kserve/calls/kserve_request.hpp"),
    ("gateway/metrics/metrics.cpp", "gateway/state/gateway_state.hpp"),
    ("gateway/metrics/torchserve_metrics.cpp", "gateway/api/torchserve/torchserve_error.hpp"),
    ("gateway/metrics/worker_load.hpp", "gateway/state/worker_facts.hpp"),
    ("cluster/models/triton/triton_import.cpp", "cluster/import/launch_import.hpp"),
}
OPEN = {"tests": LINE + ["tests", "sdk", "baton"], "sdk": ["schema", "sdk", "baton"], "examples": ["schema", "sdk", "baton"]}
LIBRARY_ROOMS = {
    r"<flatbuffers/": ["schema/", "tests/"],
    r"<caf/": ["actors/", "gateway/", "cluster/", "tests/"],
    r"<zmq": ["cluster/bus/bus_zmq", "gateway/zmq/", "sdk/", "tests/"],
    r"<boost/": ["gateway/", "tests/"],
    r"<openssl/ssl": ["gateway/connections/tls", "tests/"],
    r"<(grpc|google/protobuf)": ["gateway/grpc/library/", "tests/"],
    r"<nlohmann/": ["runtime/model/", "runtime/text/", "gateway/", "cluster/", "tests/"],
    r"<CLI/": ["cluster/", "tests/"],
    r"<toml\+\+/": ["cluster/"],
    r"<pcre2": ["runtime/text/"],
    r"<utf8proc": ["runtime/text/"],
    r"<curl/": ["cluster/hub/http_transfers", "tests/"],
    r"<archive": ["cluster/models/packed_files", "tests/"],
}
FILE_LINES_MAX, LINE_CHARS_MAX = 500, 110
FUNCTION_LINES_MAX = 70
LONG_FUNCTIONS = {"runtime/gpu/bodies/attend_body.hpp"}  # its arrays lie in registers: parts of it would not
FOLDER_FILES_MAX = 30  # of C++
PAGE_LINE_CHARS_MAX, PAGE_CELL_CHARS_MAX = 105, 120  # of Markdown outside of code; a link counts as its text
WRITTEN_PAGES = ("docs/decisions/0", "docs/develop/tested-", "tests/")  # decisions as they were written; lists of tests
BANNED_NAMES = re.compile(r"(^|_)(utils?|common|helpers?|manager|impl|misc)(_|\.|$)")


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / p for p in out.stdout.split() if (ROOT / p).is_file()]


def cmake_text():
    return "\n".join(p.read_text() for p in tracked("*CMakeLists.txt", "*.cmake"))


def folder_of(name):
    """-> "api/kserve/calls" of gateway/api/kserve/calls/kserve_call.hpp"""
    return "/".join(name.split("/")[1:-1])


def check_inner(name, line, say):
    """`name` includes a file of its own room by `line`."""
    target = re.search(r'"([^"]+)"', line)[1]
    room, order = name.split("/")[0], INNER[name.split("/")[0]]
    own, other = folder_of(name), folder_of(target)
    if (name, target) in INNER_EXCEPTIONS or own == "grpc/library" or not own:
        return
    if own not in order:
        return say(f"the folder {own} has no row in INNER (tests/tidy.py)")
    if other in order and order.index(other) > order.index(own):
        say(f"{room}/{own} must not include from {room}/{other} (INNER in tests/tidy.py)")


def room_of(name):
    return name.split("/")[0]


def check_source(path, offences):
    name = path.relative_to(ROOT).as_posix()
    whole = path.read_text(errors="replace")
    lines = whole.splitlines()
    say = lambda number, text: offences.append(f"{name}:{number}: {text}")
    if room_of(name) in LINE and name not in LONG_FUNCTIONS:
        for number, length in functions_of(whole):
            if length > FUNCTION_LINES_MAX:
                say(number, f"a function of {length} lines; split along the ideas ({FUNCTION_LINES_MAX} at most)")
    if len(lines) > FILE_LINES_MAX:
        say(1, f"{len(lines)} lines; split along the idea ({FILE_LINES_MAX} at most)")
    if BANNED_NAMES.search(path.name):
        say(1, "a file name should say the idea (no utils, common, helpers, manager, impl)")
    if lines and not lines[0].startswith("//") and path.suffix == ".hpp":
        say(1, "a header begins with a comment that says its role")
    room = room_of(name)
    allowed = LINE[: LINE.index(room) + 1] if room in LINE else OPEN.get(room, LINE)
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CHARS_MAX:
            say(number, f"{len(line)} characters")
        if re.search(r"\b(FIXME|XXX|TODO)\b", line):
            say(number, "a TODO belongs into an issue")
        include = re.match(r'\s*#include "([a-z_]+)/', line)
        if include and include[1] not in allowed:
            say(number, f"{room} must not include from {include[1]} (schema <- runtime <- actors <- gateway <- cluster)")
        if include and room in INNER and include[1] == room:
            check_inner(name, line, lambda text: say(number, text))
        for pattern, rooms in LIBRARY_ROOMS.items():
            if re.search(r"#include " + pattern, line) and not any(name.startswith(r) for r in rooms):
                say(number, f"library outside its rooms ({', '.join(rooms)})")
        if re.search(r"\bsleep_for\b|\busleep\(", line) and name.startswith(("tests/unit", "tests/sim")):
            say(number, "no sleeping in unit and sim tests")
        if re.search(r"\.dump\(\)", line) and name.startswith("gateway/"):
            say(number, "dump() throws for what is not UTF-8: json_text (gateway/base/json_text.hpp)")
        if re.search(r"std::cout|\bprintf\(", line) and name.startswith(("schema", "runtime", "actors")):
            say(number, "output belongs to main and the benches")


def check_folders(paths, offences):
    counts = collections.Counter(path.parent.relative_to(ROOT).as_posix() for path in paths)
    for folder, count in sorted(counts.items()):
        if count > FOLDER_FILES_MAX:
            offences.append(f"{folder}: {count} C++ files; split along the ideas ({FOLDER_FILES_MAX} at most)")


def check_page(path, offences):
    name = path.relative_to(ROOT).as_posix()
    in_code = in_results = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        in_code ^= line.strip().startswith("```")
        in_results = ("<!-- results" in line or in_results) and "<!-- end of results" not in line
        if in_code or in_results or name.startswith(WRITTEN_PAGES):
            continue
        if line.startswith("|"):
            cells = re.sub(r"\]\([^)]*\)", "]", line).strip("|").split(" | ")
            if longest := [c for c in cells if len(c.strip()) > PAGE_CELL_CHARS_MAX]:
                offences.append(f"{name}:{number}: a cell of {len(longest[0].strip())} characters")
        elif len(line) > PAGE_LINE_CHARS_MAX and not line.lstrip().startswith(("<", "[![")):
            offences.append(f"{name}:{number}: {len(line)} characters; wrap prose at 100")


def main():
    offences = []
    build = cmake_text()
    sources = tracked("*.hpp", "*.cpp")
    check_folders(sources, offences)
    for path in sources:
        check_source(path, offences)
        if path.suffix == ".cpp" and path.name not in build:
            offences.append(f"{path.relative_to(ROOT)}: in no CMakeLists.txt")
    for path in tracked("*.md"):
        check_page(path, offences)
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            if not (path.parent / link).exists():
                offences.append(f"{path.relative_to(ROOT)}: broken link {link}")
    print("\n".join(offences))
    print(f"tidy: {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
