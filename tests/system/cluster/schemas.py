"""Two hundred JSON schemas in the shapes that clients use. Strings and lists are bounded, so that answers end."""


def text(most=24, **more):
    return {"type": "string", "maxLength": most, **more}


def record(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required or properties), "additionalProperties": False}


def items(of, least=0, most=3):
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def number(least, most, kind="integer"):
    return {"type": kind, "minimum": least, "maximum": most}


NODE = record(name=text(8), child={"anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "null"}]})
FORMS = [
    lambda n: record(name=text(8 + n), age=number(0, 60 + n)),
    lambda n: record(title=text(4 + n), tags=items(text(6), 1, 1 + n % 3), draft={"type": "boolean"}),
    lambda n: record("kind", kind={"enum": [f"kind {i}" for i in range(2 + n)]}, note=text(10)),
    lambda n: items(record(x=number(-n - 1, n, "number"), y={"type": "integer"}), 1, 3),
    lambda n: {"anyOf": [record(ok={"const": True}, value=number(n, 2 * n)), record(ok={"const": False}, error=text(12))]},
    lambda n: record(id={"type": "string", "format": "uuid"}, made={"type": "string", "format": "date-time"}, n=number(0, n)),
    lambda n: record(mail={"type": "string", "format": "email"}, day={"type": "string", "format": "date"}, n=number(0, n)),
    lambda n: record(code={"type": "string", "pattern": f"^[A-Z]{{{1 + n % 4}}}-[0-9]{{2,{2 + n}}}$"}),
    lambda n: {**record(root={"$ref": "#/$defs/node"}), "$defs": {"node": NODE, "leaf": record(size=number(0, n))}},
    lambda n: record(a=text(n), b={"type": ["integer", "null"]}),
    lambda n: {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,6}$"}, "additionalProperties": number(0, n + 1), "minProperties": 1,
               "maxProperties": 3},
    lambda n: {"type": "array", "prefixItems": [text(5), number(0, n + 1)], "items": False, "minItems": 2},
    lambda n: {"allOf": [{"type": "object", "properties": {"a": number(0, n)}, "required": ["a"]}, {"properties": {"b": text(5)}, "required": ["b"]}]},
    lambda n: record(**{f"field {i}": [text(5), number(0, 9), {"type": "boolean"}][i % 3] for i in range(1 + n)}),
    lambda n: record("b", a=text(4), b=number(0, n), c={"type": "boolean"}, d=items({"enum": ["x", "y"]}, 0, 2)),
    lambda n: record(price={"type": "number", "exclusiveMinimum": 0, "maximum": 100 + n}, currency={"enum": ["EUR", "USD"]}),
    lambda n: items(items(number(0, n), 1, 2), 1, 2),
    lambda n: record(host={"type": "string", "format": "ipv4"}, port=number(n, 65535), up={"type": "boolean"}),
    lambda n: record(quote=text(20 + n, minLength=3), lines=items(text(12), 1, 2)),
    lambda n: record(answer={"oneOf": [number(n, n + 50), {"type": "null"}]}, why=text(16), other={"enum": ["a", 1, None, {"k": [1, 2]}]}),
]
SCHEMAS = [form(n) for n in range(1, 11) for form in FORMS]
