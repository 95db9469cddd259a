"""Validates texts against their schemas with the PyPI package jsonschema. A separate program, because the package lives in .venv.

Each line of stdin is {"schema", "text"}. Prints one JSON string per line: the fault, "" if there is none.

    schema_judge.py < LINES
"""
import json
import sys

import jsonschema


def wrong_with(schema, text):
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        kind(schema, format_checker=kind.FORMAT_CHECKER).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"[:200]
    return ""


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(wrong_with(**json.loads(line))))
