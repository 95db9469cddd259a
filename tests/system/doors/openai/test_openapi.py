"""/openapi.json: valid, and in agreement with the server that returns it."""

import httpx
import jsonschema
import openapi_spec_validator
import pytest
from raw import chat

NEEDED = {"/v1/chat/completions": chat("tokens=1"), "/v1/completions": {"prompt": "tokens=1"}, "/tokenize": {"messages": [{"role": "user", "content": "a"}]},
          "/detokenize": {"tokens": [97]}, "/v1/responses": {"input": "tokens=1"}, "/v1/embeddings": {"input": "tokens=1"},
          "/v1/messages": chat("tokens=1", max_tokens=1), "/v1/messages/count_tokens": chat("a"),
          "/api/chat": chat("tokens=1", model="fake"), "/api/generate": {"model": "fake", "prompt": "tokens=1"},
          "/api/embed": {"model": "fake", "input": "tokens=1"}, "/api/embeddings": {"model": "fake", "prompt": "tokens=1"}}


@pytest.fixture(scope="module")
def document_of(gateway):
    return httpx.get(gateway.url + "/openapi.json").json()


def body_of(document_of, path):
    """The description in OpenAI's terms, where there are several."""
    schema = document_of["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return schema.get("anyOf", [schema])[0]


def test_the_document_is_openapi(document_of):
    openapi_spec_validator.validate(document_of)
    assert document_of["openapi"].startswith("3.1")


def test_its_routes_are_those_of_the_server(gateway, document_of):
    named = {}
    for r in gateway.routes:
        path = r["path"] + ("{id}" if r["path"].endswith("/") and len(r["path"]) > 1 else "")
        named.setdefault(path, set()).add({"POST": "post", "DELETE": "delete"}.get(r["method"], "get"))
    assert {path: set(operations) for path, operations in document_of["paths"].items()} == named
    for path, operations in document_of["paths"].items():
        url = gateway.url + path.replace("{id}", "fake").replace("{model}", "fake").replace("{version}", "1")
        asked = httpx.options(url)
        assert asked.status_code == 204 and all(method.upper() in asked.headers["allow"] for method in operations)
        other = httpx.request("PUT", url)
        assert other.status_code == 405
        answer = operations.get("get", {}).get("responses", {})
        if "200" in answer and httpx.get(url).status_code == 200:
            assert httpx.get(url).headers["content-type"].split(";")[0] in answer["200"]["content"]


def test_its_fields_are_those_that_the_server_takes(gateway, document_of):
    for api, path in (("chat", "/v1/chat/completions"), ("completions", "/v1/completions")):
        assert set(body_of(document_of, path)["properties"]) == set(gateway.fields[api])
    for path, needed in NEEDED.items():
        schema = body_of(document_of, path)
        assert httpx.post(gateway.url + path, json=needed).status_code == 200
        for name in schema["properties"]:
            body = {**needed, name: needed.get(name)}  # null, or as it is: both are taken
            answer = httpx.post(gateway.url + path, json=body)
            assert answer.status_code == 200 or "there is no parameter" not in answer.json()["error"]["message"], (path, name)
        unknown = httpx.post(gateway.url + path, json={**needed, "colour": "red"})
        assert unknown.status_code == 400 and "colour" not in schema["properties"]


def test_what_its_schemas_refuse_the_server_refuses(gateway, document_of):
    for path, needed in NEEDED.items():
        schema = body_of(document_of, path)
        jsonschema.Draft202012Validator(schema).validate(needed)
        for name in schema["properties"]:
            for value in (-5, 1e9, "x", True, [], {}, ["x"], [5], {"x": 5}):
                body = {**needed, name: value}
                if not jsonschema.Draft202012Validator(schema).is_valid(body):
                    assert httpx.post(gateway.url + path, json=body).status_code == 400, (path, name, value)


def test_errors_match_the_document(gateway, document_of):
    for path in NEEDED:
        name = "AnthropicError" if path.startswith("/v1/messages") else "OllamaError" if path.startswith("/api/") else "Error"
        schema = {"$ref": f"#/components/schemas/{name}", "components": document_of["components"]}
        jsonschema.Draft202012Validator(schema).validate(httpx.post(gateway.url + path, json={}).json())


def test_fields_of_tgi_are_those_that_the_server_takes(gateway, document_of):
    schema = body_of(document_of, "/generate")
    parameters = schema["properties"]["parameters"]["anyOf"][0]
    needed = {"inputs": "tokens=1"}
    jsonschema.Draft202012Validator(schema).validate(needed)
    for name in parameters["properties"]:
        answer = httpx.post(gateway.url + "/generate", json={**needed, "parameters": {name: None}})
        assert answer.status_code == 200, (name, answer.text)
        for value in (-5, 1e9, "x", True, [], {}, ["x"], [5], {"x": 5}):
            body = {**needed, "parameters": {name: value}}
            if not jsonschema.Draft202012Validator(schema).is_valid(body):
                assert httpx.post(gateway.url + "/generate", json=body).status_code == 422, (name, value)
    unknown = httpx.post(gateway.url + "/generate", json={**needed, "parameters": {"colour": "red"}})
    assert unknown.status_code == 422 and "colour" not in parameters["properties"]
    error_schema = {"$ref": "#/components/schemas/TgiError", "components": document_of["components"]}
    jsonschema.Draft202012Validator(error_schema).validate(unknown.json())


def test_fields_of_kserve_are_those_that_the_server_takes(gateway, document_of):
    path = "/v2/models/{model}/generate"
    url, schema = gateway.url + path.replace("{model}", "fake"), body_of(document_of, path)
    needed = {"text_input": "tokens=1"}
    jsonschema.Draft202012Validator(schema).validate(needed)
    for name in set(schema["properties"]) - {"text_input"}:
        assert httpx.post(url, json={**needed, name: None}).status_code == 200, name
        for value in (-5, 1e9, "x", True, [], {}, ["x"], [5], {"x": 5}):
            body = {**needed, name: value}
            if not jsonschema.Draft202012Validator(schema).is_valid(body):
                assert httpx.post(url, json=body).status_code == 400, (name, value)
    unknown = httpx.post(url, json={**needed, "colour": "red"})
    assert unknown.status_code == 400 and "colour" not in schema["properties"]
    infer = body_of(document_of, "/v2/models/{model}/infer")
    body = {"inputs": [{"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["tokens=1"]}], "outputs": [{"name": "text_output"}]}
    jsonschema.Draft202012Validator(infer).validate(body)
    assert httpx.post(url.replace("generate", "infer"), json=body).status_code == 200
    assert not jsonschema.Draft202012Validator(infer).is_valid({"inputs": [{**body["inputs"][0], "name": "image"}]})
    error_schema = {"$ref": "#/components/schemas/KserveError", "components": document_of["components"]}
    jsonschema.Draft202012Validator(error_schema).validate(unknown.json())
