"""Writes schemas.jsonl beside it: 200 JSON schemas in the style that APIs, tools and configuration files publish theirs in, each a line
{"name", "schema"}. All of it is written here; every string, list, map and number is bounded, so that an answer ends.

    python3 tests/data/json_schemas/make_schemas.py
"""
import copy
import json
import pathlib

FILE = pathlib.Path(__file__).resolve().parent / "schemas.jsonl"


def text(most=24, least=0, **more):
    return {"type": "string", **({"minLength": least} if least else {}), "maxLength": most, **more}


def pattern(expression):
    return {"type": "string", "pattern": f"^{expression}$"}


def form(name):
    return {"type": "string", "format": name}


def one_of(*values):
    return {"type": "string", "enum": list(values)}


def whole(least, most):
    return {"type": "integer", "minimum": least, "maximum": most}


def number(least, most):
    return {"type": "number", "minimum": least, "maximum": most}


def items(of, least=0, most=2):
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def record(optional=(), **properties):
    return {"type": "object", "properties": properties, "required": [p for p in properties if p not in optional], "additionalProperties": False}


def or_null(schema):
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


def table(of, most=3, names="[a-z]{2,8}"):
    """A map with free names."""
    return {"type": "object", "propertyNames": {"pattern": f"^{names}$"}, "additionalProperties": of, "minProperties": 1, "maxProperties": most}


YES = {"type": "boolean"}
SHA = pattern("[0-9a-f]{12}")
DAY, MOMENT, CLOCK = form("date"), form("date-time"), form("time")
MONEY = record(amount={"type": "number", "minimum": 0, "maximum": 9999.99}, currency=one_of("EUR", "USD", "CHF", "JPY"))
PLACE = record(lat=number(-90, 90), lon=number(-180, 180))
PERSON = record(optional=("email",), name=text(24, 2), age=whole(0, 120), email=form("email"))
ADDRESS = record(street=text(24), city=text(16), zip=pattern("[0-9]{5}"), country=pattern("[A-Z]{2}"))

SUBJECTS = {
    "issue": record(optional=("assignee",), number=whole(1, 99999), title=text(40, 3), state=one_of("open", "closed"), labels=items(one_of("bug", "docs", "help wanted"), 0, 3),
                    assignee=or_null(text(12, 1)), locked=YES),
    "commit": record(sha=pattern("[0-9a-f]{40}"), message=text(40, 1), author=record(name=text(16, 1), date=MOMENT), parents=items(SHA, 0, 2), verified=YES),
    "pull_request": record(id=whole(1, 10**9), head=record(ref=pattern("[a-z]{2,8}/[a-z0-9-]{2,12}"), sha=SHA), draft=YES, mergeable=or_null(YES),
                           review=one_of("approved", "changes_requested", "pending"), additions=whole(0, 5000)),
    "package": record(optional=("private",), name=pattern("[a-z][a-z0-9-]{1,12}"), version=pattern(r"(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})"),
                      license=one_of("MIT", "Apache-2.0", "GPL-3.0-only"), dependencies=table(pattern(r"[\^~]?\d{1,2}\.\d{1,2}\.\d{1,2}")), private=YES),
    "compose_service": record(optional=("restart",), image=pattern("[a-z]{3,10}:[0-9]{1,2}(\\.[0-9]{1,2})?"), ports=items(pattern("[0-9]{2,4}:[0-9]{2,4}"), 0, 2),
                              environment=table(text(12), 2, "[A-Z][A-Z_]{1,8}"), restart=one_of("no", "always", "on-failure")),
    "workflow": record(name=text(16, 1), on=items(one_of("push", "pull_request", "schedule"), 1, 2), jobs=table(record(
        runs_on={"const": "ubuntu-latest"}, timeout_minutes=whole(1, 360), steps=items(text(24, 2), 1, 2)), 2)),
    "pod": record(apiVersion={"const": "v1"}, kind={"const": "Pod"}, metadata=record(name=pattern("[a-z]([a-z0-9-]{0,10}[a-z0-9])?"), labels=table(text(8), 2)),
                  spec=record(containers=items(record(name=pattern("[a-z]{2,10}"), image=pattern("[a-z]{2,10}:[a-z0-9]{1,8}"), cpu=pattern("[1-9][0-9]{0,3}m")), 1, 2),
                              restartPolicy=one_of("Always", "OnFailure", "Never"))),
    "log_line": record(optional=("fields",), at=MOMENT, level=one_of("debug", "info", "warning", "error"), message=text(40), trace=pattern("[0-9a-f]{32}"), fields=table(text(10), 2)),
    "http_exchange": record(method=one_of("GET", "POST", "PUT", "DELETE"), path=pattern("(/[a-z0-9]{1,8}){1,4}"), status={"enum": [200, 201, 204, 400, 404, 500]},
                            seconds=number(0, 60), client=form("ipv4")),
    "problem": record(optional=("detail",), type=form("uri"), title=text(30, 3), status=whole(400, 599), detail=text(40), instance=pattern("/[a-z]{2,8}/[0-9]{1,6}")),
    "invoice": record(number=pattern("INV-20[0-9]{2}-[0-9]{4}"), issued=DAY, due=DAY, lines=items(record(text=text(20, 2), quantity=whole(1, 100), price=number(0, 999.5)), 1, 2), total=MONEY),
    "payment": record(id=form("uuid"), amount=MONEY, method={"anyOf": [
        record(type={"const": "card"}, last4=pattern("[0-9]{4}"), expires=pattern("(0[1-9]|1[0-2])/[0-9]{2}")), record(type={"const": "iban"}, iban=pattern("[A-Z]{2}[0-9]{2}[A-Z0-9]{12,16}"))]},
        captured=YES),
    "order": record(optional=("note",), id=whole(1, 10**6), customer=PERSON, ship_to=ADDRESS, lines=items(record(sku=pattern("[A-Z]{3}-[0-9]{4}"), count=whole(1, 20)), 1, 2), note=text(30)),
    "product": record(name=text(24, 3), price=MONEY, tags=items(text(8, 2), 0, 3), stock=whole(0, 10000), rating=number(0, 5), dimensions={
        "type": "array", "prefixItems": [number(0, 300), number(0, 300), number(0, 300)], "items": False, "minItems": 3}),
    "review": record(stars=whole(1, 5), title=text(24, 2), body=text(80, 10), recommends=YES, written=DAY),
    "subscription": record(plan=one_of("free", "pro", "team", "enterprise"), seats=whole(1, 500), renews=or_null(DAY), addons=items(one_of("sso", "audit", "backup"), 0, 3)),
    "geojson_point": record(optional=("bbox",), type={"const": "Feature"}, geometry=record(type={"const": "Point"}, coordinates={
        "type": "array", "prefixItems": [number(-180, 180), number(-90, 90)], "items": False, "minItems": 2}), bbox=items(number(-180, 180), 4, 4), properties=record(name=text(16))),
    "geojson_polygon": record(type={"const": "Polygon"}, coordinates=items(items(items(number(-180, 180), 2, 2), 4, 4), 1, 1)),
    "weather": record(station=pattern("[A-Z]{4}"), observed=MOMENT, temperature=number(-60, 60), wind=record(speed=number(0, 90), direction=whole(0, 359)), sky=one_of("clear", "cloudy", "rain", "snow", "fog")),
    "route": record(profile=one_of("car", "bike", "foot"), legs=items(record(start=PLACE, end=PLACE, metres=whole(0, 10**6)), 1, 2), duration=form("duration")),
    "flight": record(number=pattern("[A-Z]{2}[0-9]{3,4}"), start=record(airport=pattern("[A-Z]{3}"), at=MOMENT), end=record(airport=pattern("[A-Z]{3}"), at=MOMENT),
                     seats=items(pattern("[1-9][0-9]?[A-F]"), 1, 3), cabin=one_of("economy", "business", "first")),
    "train": record(line=pattern("(IC|RE|S)[ ]?[0-9]{1,4}"), platform=whole(1, 30), departs=CLOCK, delay=or_null(whole(1, 240)), stops=items(text(16, 2), 2, 3)),
    "hotel_booking": record(optional=("wishes",), guest=PERSON, arrival=DAY, nights=whole(1, 30), rooms=items(record(beds=whole(1, 4), view=one_of("sea", "garden", "street")), 1, 2), wishes=text(40)),
    "calendar_event": record(uid=form("uuid"), summary=text(30, 3), start=MOMENT, end=MOMENT, attendees=items(form("email"), 1, 2), repeats=or_null(record(every=whole(1, 12), unit=one_of("day", "week", "month")))),
    "task": record(id=whole(1, 9999), text=text(40, 3), done=YES, priority={"enum": [1, 2, 3, None]}, due=or_null(DAY), subtasks=items(record(text=text(16), done=YES), 0, 2)),
    "recipe": record(name=text(24, 3), serves=whole(1, 12), ingredients=items(record(what=text(16, 2), amount=number(0, 2000), unit=one_of("g", "ml", "piece")), 2, 3), steps=items(text(40, 8), 1, 3)),
    "movie": record(title=text(30, 1), year=whole(1888, 2030), genres=items(one_of("drama", "comedy", "thriller", "documentary"), 1, 2), cast=items(record(actor=text(18, 2), role=text(14)), 1, 2), runtime=form("duration")),
    "book": record(optional=("subtitle",), isbn=pattern("97[89]-[0-9]-[0-9]{4}-[0-9]{4}-[0-9]"), title=text(30, 1), subtitle=text(20), authors=items(text(18, 2), 1, 2), pages=whole(1, 2000), language=pattern("[a-z]{2}(-[A-Z]{2})?")),
    "song": record(title=text(24, 1), artist=text(18, 1), seconds=whole(1, 1200), bpm=number(40, 240), key=pattern("[A-G](#|b)? (major|minor)")),
    "recommendation": record(query=text(20), hits=items(record(id=whole(1, 10**6), score=number(0, 1), why=text(24)), 1, 3), next=or_null(pattern("[A-Za-z0-9_-]{16}"))),
    "chat_message": record(role=one_of("system", "user", "assistant"), content={"anyOf": [text(60), items(record(type={"const": "text"}, text=text(30)), 1, 2)]}, name=or_null(pattern("[a-zA-Z0-9_]{1,12}"))),
    "function_call": record(id=pattern("call_[A-Za-z0-9]{8}"), type={"const": "function"}, function=record(name=one_of("get_weather", "search", "send_mail"), arguments=table({"anyOf": [text(12), whole(0, 100), YES]}))),
    "classification": record(label=one_of("positive", "negative", "neutral", "mixed"), confidence=number(0, 1), reasons=items(text(24, 4), 1, 2)),
    "entities": record(entities=items(record(text=text(16, 1), type=one_of("person", "place", "organisation", "date"), span={
        "type": "array", "prefixItems": [whole(0, 999), whole(0, 999)], "items": False, "minItems": 2}), 1, 3)),
    "summary": record(headline=text(40, 8), points=items(text(50, 10), 2, 3), tone=one_of("formal", "casual"), words=whole(10, 500)),
    "question": record(question=text(60, 8), options=items(text(20, 1), 4, 4), answer=whole(0, 3), difficulty=one_of("easy", "medium", "hard")),
    "translation": record(source=pattern("[a-z]{2}"), target=pattern("[a-z]{2}"), text=text(60, 1), alternatives=items(text(40), 0, 2), formal=or_null(YES)),
    "chain_of_thought": record(steps=items(record(thought=text(50, 8), result=text(20)), 1, 3), answer=text(20, 1)),
    "sql_query": record(dialect=one_of("sqlite", "postgresql"), select=items(pattern("[a-z_]{1,12}"), 1, 3), table=pattern("[a-z_]{2,12}"), where=items(record(
        column=pattern("[a-z_]{1,12}"), op=one_of("=", "<", ">", "like"), value={"type": ["string", "integer", "null"], "maxLength": 12, "minimum": 0, "maximum": 9999}), 0, 2), limit=whole(1, 100)),
    "chart": record(mark=one_of("bar", "line", "point"), x=record(field=text(10, 1), type=one_of("nominal", "temporal")), y=record(field=text(10, 1), type={"const": "quantitative"}), colour=or_null(pattern("#[0-9a-f]{6}"))),
    "user": record(optional=("bio", "website"), login=pattern("[a-z][a-z0-9_]{2,12}"), joined=DAY, roles=items(one_of("admin", "editor", "reader"), 1, 2), bio=text(40), website=form("uri"), two_factor=YES),
    "session": record(token=pattern("[A-Za-z0-9]{32}"), user=form("uuid"), expires=MOMENT, scopes=items(pattern("(read|write):[a-z]{2,8}"), 1, 3), ip=form("ipv4")),
    "medical_record": record(patient=pattern("P[0-9]{6}"), born=DAY, blood=one_of("A+", "A-", "B+", "B-", "AB+", "AB-", "0+", "0-"), pressure=record(systolic=whole(70, 200), diastolic=whole(40, 130)), allergies=items(text(14, 3), 0, 2)),
    "resume": record(name=text(24, 3), email=form("email"), jobs=items(record(company=text(16, 1), start=whole(1970, 2026), end=or_null(whole(1970, 2026))), 1, 2), skills=items(record(name=text(12, 1), level=whole(1, 5)), 1, 3)),
    "vehicle": record(vin=pattern("[A-HJ-NPR-Z0-9]{17}"), make=text(12, 1), year=whole(1950, 2027), fuel=one_of("petrol", "diesel", "electric"), range_km=or_null(whole(50, 1200))),
    "sensor": record(device=pattern("[0-9A-F]{2}(:[0-9A-F]{2}){5}"), readings=items(record(at=whole(1_600_000_000, 2_000_000_000), value=number(-40, 125)), 1, 3), unit=one_of("C", "hPa", "%"), battery=number(0, 100)),
    "network_interface": record(name=pattern("(eth|wlan)[0-9]"), ipv4=or_null(form("ipv4")), ipv6=or_null(form("ipv6")), mtu=whole(576, 9000), up=YES, host=form("hostname")),
    "game_state": record(turn=whole(1, 300), board=items(items(one_of("x", "o", " "), 3, 3), 3, 3), to_move=one_of("x", "o"), scores=table(whole(0, 21), 2)),
    "character": record(name=text(16, 2), klass=one_of("wizard", "ranger", "bard"), level=whole(1, 20), abilities=record(strength=whole(3, 18), wisdom=whole(3, 18), charm=whole(3, 18)), items=items(record(name=text(14, 2), weight=number(0, 50)), 0, 2)),
    "feature_flag": record(key=pattern("[a-z]+(-[a-z]{1,8}){0,2}".replace("+", "{2,8}")), enabled=YES, rules=items({"anyOf": [record(percentage=whole(0, 100)), record(country=pattern("[A-Z]{2}"), allow=YES)]}, 0, 2), default={"enum": [True, False, "auto"]}),
}


def described(name, schema):
    """As a document of its own: a draft, a title, descriptions."""
    made = copy.deepcopy(schema)
    for key, value in made["properties"].items():
        value.setdefault("description", f"The {key.replace('_', ' ')} of the {name.replace('_', ' ')}.")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name.replace("_", " ").title(), **made}


def paged(name, schema):
    """As an API's response: a page of items, distinguished by a reference."""
    return {"type": "object", "properties": {"data": items(ref(name), 1, 2), "has_more": YES, "cursor": or_null(pattern("[A-Za-z0-9]{8}"))},
            "required": ["data", "has_more", "cursor"], "additionalProperties": False, "$defs": {name: schema}}


def as_arguments(_, schema):
    """As a tool's strict parameters: all are required, those that were optional may be null; an action is chosen."""
    made = copy.deepcopy(schema)
    for key in set(made["properties"]) - set(made["required"]):
        made["properties"][key] = or_null(made["properties"][key])
    made["required"] = list(made["properties"])
    return record(action=one_of("create", "update"), arguments=made, confirm=YES)


def in_draft_7(schema):
    """Its tuples."""
    if isinstance(schema, list):
        return [in_draft_7(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: in_draft_7(value) for key, value in schema.items()}
    if "prefixItems" in made:
        made["items"], made["additionalItems"] = made.pop("prefixItems"), made["items"]
    return made


def changed(name, schema):
    """As an event: created, changed or deleted, by draft 7's `definitions`."""
    before_and_after = {"oneOf": [
        record(event={"const": f"{name}.updated"}, at=MOMENT, data={"$ref": f"#/definitions/{name}"}, fields=items({"type": "string", "enum": list(schema["properties"])}, 1, 2)),
        record(event={"const": f"{name}.deleted"}, at=MOMENT, id=form("uuid"), reason=text(30, 2))]}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **before_and_after, "definitions": {name: in_draft_7(schema)}}


def recursive(_, schema):
    """As a chain of objects of the same kind, which the schema does not bound. Only for subjects whose chains the model ends itself."""
    made = copy.deepcopy(schema)
    made["properties"]["next"] = or_null(ref("node"))
    made["required"] = [*made["required"], "next"]
    return {**ref("node"), "$defs": {"node": made}}


def nested(_, schema):
    """As a tree of two levels, by references."""
    node = copy.deepcopy(schema)
    node["properties"]["children"] = items(ref("leaf"), 0, 2)
    node["required"] = [*node["required"], "children"]
    return {"type": "object", "properties": {"root": ref("node")}, "required": ["root"], "$defs": {"node": node, "leaf": schema}}


def joined(_, schema):
    """By allOf: common properties, and its own."""
    own = copy.deepcopy(schema)
    del own["additionalProperties"]
    return {"allOf": [{"type": "object", "properties": {"id": form("uuid"), "version": whole(1, 99)}, "required": ["id", "version"]}, own]}


TREES = ("task", "chat_message", "classification", "character")
CHAINS = ("song",)
JOINED = ("review", "vehicle", "weather", "translation", "subscription")


def all_of_them():
    for name, schema in SUBJECTS.items():
        last = nested if name in TREES else recursive if name in CHAINS else changed
        for other in (joined if name in JOINED else described, paged, as_arguments, last):
            yield {"name": f"{name}.{other.__name__}", "schema": other(name, schema)}


def main():
    lines = [json.dumps(one, separators=(",", ":")) for one in all_of_them()]
    FILE.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} schemas, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
