"""docs/apis/keys/*.md have a row for each key of the four systems that the code knows, with the same verdict, and for no other key."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMS = ["torchserve", "triton", "vllm", "tgi"]
VERDICTS = ("works", "differs", "left out", "refused", "ignored", "absent")
TICKED = re.compile(r"`([^`]+)`")


def page(system):
    return (ROOT / "docs" / f"apis/keys/{system}.md").read_text()


def source(path):
    return (ROOT / path).read_text()


def section(system, title):
    return re.split(r"^## ", page(system).split(f"\n## {title}\n", 1)[1], flags=re.M)[0]


def rows(text):
    """(first cell, verdict, the rest) of each row except heads and rules."""
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [(c[0], c[1], c[2]) for c in cells if len(c) == 3 and not c[0].startswith("---") and "`" in c[0]]


def keys(found, verdict=""):
    return sorted(key for names, is_, _ in found if is_.startswith(verdict) for key in TICKED.findall(names))


def paths(found):
    """Keys of config.pbtxt. A key with a leading dot continues the path of the first key of its row, or of the last one without a dot."""
    for names, _, _ in found:
        base = ""
        for key in TICKED.findall(names):
            if not key.startswith("."):
                base = key
            yield base + key if key.startswith(".") else key


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_row_has_a_verdict_and_is_there_once(system):
    for title in re.findall(r"^## (.*)$", page(system), re.M):
        found = rows(section(system, title))
        assert found, title
        names = [names for names, _, _ in found if not names.startswith("...")]
        assert sorted(names) == sorted(set(names)), title
        if title == "model-config.yaml":
            continue  # it says what becomes of a key in two places
        assert [names for names, is_, _ in found if not is_.startswith(VERDICTS)] == [], title
        # The reason: each difference has one.
        assert [names for names, is_, why in found if is_ != "works" and not why] == [], title


def test_the_tables_of_config_properties_and_of_the_code_are_the_same():
    code = source("cluster/models/torchserve/torchserve_properties.cpp")
    left_out = set(re.findall(r'^\s+\{"(\w+)",', source("cluster/models/torchserve/torchserve_left_out.cpp"), re.M))
    from_environment = set(re.findall(r'"(\w+)"', code.split("read_keys{", 1)[1].split("};", 1)[0]))
    known = left_out | set(re.findall(r'listener_key\{"(\w+)"', code)) | set(re.findall(r'take_(?:number|path)\(all, "(\w+)"\)', code)) | set(re.findall(r'all\.find\("(\w+)"\)', code))
    known |= {f"grpc_{service}_{what}" for service in re.findall(r'take_grpc\(all, "(\w+)"', code) for what in ("port", "address")}
    assert len(known) > 70 and keys(rows(section("torchserve", "config.properties"))) == sorted(known)
    assert from_environment | left_out == known and not from_environment & left_out


def test_the_table_of_model_config_and_the_code_are_the_same():
    known = set()
    for file in ("cluster/import/torchserve_import.cpp", "cluster/models/torchserve/torchserve_worker.cpp"):
        code = source(file)
        known |= set(re.findall(r'(?:number|flag|choice|numbers|map)\((?:in\.root\(\), |torchrun, |handler, )?"([\w-]+)"', code)) | set(re.findall(r'refused_key\{"(\w+)"', code))
    known |= set(re.findall(r'^\s+\{"([\w-]+)",', source("cluster/import/torchserve_import.cpp").split("left_out_model_keys{", 1)[1].split("\n};", 1)[0], re.M))
    body = section("torchserve", "model-config.yaml").split("| key that a handler reads |")[0]
    documented = {key for names, _, _ in rows(body) for key in TICKED.findall(names)}
    assert len(known) > 35 and sorted(documented) == sorted(known)


def test_documented_registration_and_scaling_keys_are_those_read():
    calls = {}  # the rows of each, those that begin with "..." among them
    for row in rows(section("torchserve", "Management API")):
        if not row[0].startswith("..."):
            call = TICKED.findall(row[0])[0]
        calls.setdefault(call, []).append(row)
    known_in = lambda file: set(re.findall(r'"(\w+)"', source(file).split("check_known(asked, {", 1)[1].split("}", 1)[0]))  # noqa: E731
    assert set(keys(calls["POST /models"])) - {"POST /models"} == known_in("gateway/api/torchserve/torchserve_store.cpp")
    assert set(keys(calls["PUT /models/{model}"], "works")) - {"PUT /models/{model}", "/{version}"} == known_in("gateway/api/torchserve/torchserve_models.cpp")


CONFIG_FIELDS = "gateway/api/kserve/models/kserve_config_fields.hpp", re.compile(r'config_field\{"(\w*)", "(\w+)"(?:, message, \w+, "(\w+)")?'), ""
OWN_FIELDS = "cluster/triton_fields.cpp", re.compile(r'\{"(\w+)", "(\w+)", "(\w*)",\s*(?:""|"[^"]*"|\w+)\}'), "ModelConfig"


def fields_of_pbtxt():
    """Every path of a field, without the entries of maps: parameters.string_value."""
    file, pattern, outermost = next(known for known in (CONFIG_FIELDS, OWN_FIELDS) if (ROOT / known[0]).exists())
    by_message = {}
    for message, name, kind in pattern.findall(source(file)):
        by_message.setdefault(message, []).append((name, kind))

    def walk(message, path):
        for name, kind in by_message.get(message, []):
            yield path + name
            if kind and (kind != message or message != outermost):
                yield from walk(kind, f"{path}{name}.")
    return sorted(set(without_entries(walk(outermost, ""))))


def without_entries(all_paths):
    return [".".join(part for part in path.split(".") if part not in ("key", "value")) for path in all_paths]


def test_each_field_of_config_pbtxt_has_its_row():
    known = fields_of_pbtxt()
    assert len(known) > 120
    found = rows(section("triton", "config.pbtxt"))
    whole = {TICKED.findall(names)[0] for names, _, _ in found if "and all in it" in names}
    documented = list(paths(found))
    assert sorted(documented) == sorted(set(documented)) and sorted(set(without_entries(documented)) - set(known)) == []
    missing = [p for p in known if p not in without_entries(documented) and not any(p.startswith(w + ".") for w in whole)]
    assert missing == []


def test_documented_inputs_and_parameters_of_an_llm_are_those_read():
    code = source("gateway/api/kserve/calls/kserve_request.cpp")
    elsewhere = set(re.findall(r'"(\w+)"', code.split("given_elsewhere{", 1)[1].split("}", 1)[0]))
    rows_of_code = set(re.findall(r'parameter_row\{"(\w+)"', code))
    found = rows(section("triton", "Inputs and parameters of an LLM"))
    documented = set(keys(found))
    assert rows_of_code | set(re.findall(r'name == "(\w+)"', code)) - {"timeout", "priority"} <= documented and elsewhere - {"stream", "priority"} <= set(keys(found, "refused"))


def unsupported(path, name):
    body = source(path).split(f"{name}[] = {{", 1)[1].split("\n", 1)[1].split("};", 1)[0]
    return set(re.findall(r'\{"(\w+)", "', body))


def test_parameters_that_are_refused_are_those_of_the_code():
    text = section("vllm", "Chats and completions")
    found = rows(text)
    both, chat, completions = (unsupported("gateway/api/openai/request/openai_unsupported.hpp", f"unsupported_in_{kind}") for kind in ("both", "chat", "completions"))
    others = set(TICKED.findall(text.split("that are refused in the same way:", 1)[1]))
    assert set(keys(found, "refused")) | others == both | chat | completions
    taken = set(keys(found, "works")) | set(keys(found, "ignored"))
    assert taken & both == set()
    assert taken & completions == {"thinking_token_budget"} and taken & chat == {"best_of", "echo"}  # each in the other route


@pytest.mark.parametrize("title, path, name", [("Embeddings", "gateway/api/openai/request/embedding_request.cpp", "unsupported_in_embeddings"),
                                               ("Responses", "gateway/api/responses/responses_request.cpp", "unsupported_in_responses")])
def test_other_bodies_refuse_what_their_tables_say(title, path, name):
    assert set(keys(rows(section("vllm", title)), "refused")) == unsupported(path, name)


def test_parameters_of_tgi_are_those_of_the_code():
    code = source("gateway/api/tgi/tgi_request.cpp")
    read = set(re.findall(r'(?:real|boolean|integer|find|text|object|require)\(\s*"(\w+)"', code)) | unsupported("gateway/api/tgi/tgi_request.cpp", "unsupported_parameters")
    documented = set(keys(rows(section("tgi", "generate").split("| field of an answer")[0])))
    assert {"inputs", "temperature", "grammar", "adapter_id", "watermark", "top_n_tokens"} <= read
    assert read - {"type", "value", "schema", "name", "strict"} - documented == set()


METRICS = [("triton", "nv_"), ("vllm", "vllm:"), ("tgi", "tgi_")]


@pytest.mark.parametrize("system, prefix", METRICS)
def test_metrics_are_there_or_are_not_as_the_tables_say(system, prefix):
    code = "".join(p.read_text() for p in (ROOT / "gateway").rglob("*.cpp"))
    found = rows(section(system, "Metrics"))
    there, absent = keys(found, "works"), keys(found, "absent")
    bare = lambda name: name.removeprefix(prefix).removesuffix("_total")  # noqa: E731
    assert there and [m for m in there if bare(m) not in code] == []
    assert absent and [m for m in absent if f'"{m}' in code] == []


def test_routes_that_are_refused_are_asked_for_by_a_test():
    asked = source("tests/system/doors/test_refused_features.py")
    for system in ("vllm", "tgi"):
        for names, is_, _ in rows(section(system, "Routes")):
            for route in TICKED.findall(names) if is_.startswith("refused") else []:
                path = route.split(" ")[-1].lstrip("/")
                short = path.removeprefix("v1/")
                assert f'"{path}"' in asked or f'"{short}"' in asked or path == "AIP_PREDICT_ROUTE" or path == "api-doc/openapi.json", route
        routes = re.findall(r'"([^"]+)"', asked.split({"vllm": "VLLMS", "tgi": "TGIS"}[system] + " = [", 1)[1].split("]", 1)[0])
        assert [r for r in routes if f"/{r}`" not in section(system, "Routes") and r != "embed"] == []


def test_the_check_itself_finds_what_is_wrong():
    found = rows("| `a`, `.b` | works | |\n| --- | --- | --- |\n| `c.d` and all in it | left out | why |\n| key | here | why |\n")
    assert found == [("`a`, `.b`", "works", ""), ("`c.d` and all in it", "left out", "why")]
    assert list(paths(found)) == ["a", "a.b", "c.d"] and keys(found, "left") == ["c.d"]
