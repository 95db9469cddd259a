"""Checks objects of Kubernetes against published schemas, in a venv of its own. Reads objects as lines of JSON on stdin. Answers each with a
line: {"schema": the package that has it, "errors": [...]}. No schema allows a field that it does not name.

    manifests_check.py VERSION        of Kubernetes, such as 1.34
"""
import ast
import functools
import importlib.util
import json
import pathlib
import re
import sys

import importlib_resources
import jsonschema
import kubernetes_validate
from referencing import Registry, Resource

SCALARS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "object": "object"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def strict(schema):
    """A pydantic schema that allows only the fields that it names. `metadata` has Kubernetes' own type and stays open."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    below = {key: strict(value) for key, value in schema.items()}
    return {**below, "additionalProperties": False} if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema else below


@functools.cache
def definitions(version):
    newest = max((v for v in kubernetes_validate.utils.all_versions() if v.startswith(version + ".")), default=version)
    folder = importlib_resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"v{newest}-local-strict"
    return json.loads((folder / "_definitions.json").read_text())


def definition_of(name, version):
    """The definition of Kubernetes that KServe's SDK calls `name`: V1Container, K8sIoApiAppsV1DeploymentStrategy."""
    known = definitions(version)["$defs"]
    packed = {re.sub(r"[^a-z0-9]", "", key.lower()): key for key in known}
    key = packed.get("io" + name.lower()) or next((f"io.k8s.{place}.v1.{name[2:]}" for place in ("api.core", "apimachinery.pkg.apis.meta")
                                                  if name.startswith("V1") and f"io.k8s.{place}.v1.{name[2:]}" in known), None)
    return key


# The SDK's models are made of the same Go types as KServe's CRDs. They are read as source: an import takes a web server and numpy.
# The parts of a pod in them are Kubernetes' own.
@functools.cache
def sdk_models():
    """Class of KServe's SDK -> (field in JSON -> type, required fields)."""
    root = pathlib.Path(importlib.util.find_spec("kserve").submodule_search_locations[0]) / "models"
    found = {}
    for file in root.glob("*.py"):
        text = file.read_text()
        for node in ast.parse(text).body:
            tables = {t.id: ast.literal_eval(s.value) for s in getattr(node, "body", []) if isinstance(s, ast.Assign)
                      for t in s.targets if isinstance(t, ast.Name) and t.id in ("openapi_types", "attribute_map")}
            if len(tables) == 2:
                names = tables["attribute_map"]
                required = [names[field] for field in re.findall(r"client_side_validation and (\w+) is None", text)]
                found[node.name] = ({names[field]: kind for field, kind in tables["openapi_types"].items()}, required)
    return found


def schema_of_type(kind, version):
    if kind in SCALARS:
        return {"type": SCALARS[kind]}
    if many := re.fullmatch(r"list\[(.*)\]", kind):
        return {"type": "array", "items": schema_of_type(many[1], version)}
    if table := re.fullmatch(r"dict\(str, (.*)\)", kind):
        return {"type": "object", "additionalProperties": schema_of_type(table[1], version)}
    if kind in sdk_models():
        return {"$ref": f"#/$defs/{kind}"}
    if key := definition_of(kind, version):
        return {"$ref": f"{definitions(version)['$id']}#/$defs/{key}"}
    return {}  # a quantity, which may be a number or a text


def sdk_schema(name, version):
    models = {model: {"type": "object", "additionalProperties": False, "required": required,
                      "properties": {field: schema_of_type(kind, version) for field, kind in fields.items()}}
              for model, (fields, required) in sdk_models().items()}
    return {"$schema": DIALECT, "$ref": f"#/$defs/{name}", "$defs": models}


def keda_schema(kind):
    """The models are made of KEDA's CRDs."""
    import cloudcoil.models.keda.v1alpha1 as keda
    made = strict(getattr(keda, kind).model_json_schema(by_alias=True))
    made["properties"]["metadata"] = {}
    return made


def schema_for(thing, version):
    """(its name in messages, the schema); None: Kubernetes has it itself."""
    group, _, api = thing["apiVersion"].rpartition("/")
    if group == "serving.kserve.io":
        return "kserve", sdk_schema(api[0].upper() + api[1:] + thing["kind"], version)
    if group == "keda.sh":
        return "cloudcoil.models.keda", keda_schema(thing["kind"])
    return "kubernetes-validate", None


def errors_in(thing, version):
    name, schema = schema_for(thing, version)
    if schema is None:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
            return name, []
        except kubernetes_validate.ValidationError as e:
            return name, [f"{'.'.join(map(str, e.absolute_path))}: {e.message}"]
        except kubernetes_validate.SchemaNotFoundError as e:
            return name, [e.message]
    registry = Resource.from_contents(definitions(version)) @ Registry()
    found = jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(thing)
    return name, [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in found]


def main(version):
    for line in sys.stdin:
        name, errors = errors_in(json.loads(line), version)
        print(json.dumps({"schema": name, "errors": errors}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
