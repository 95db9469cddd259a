"""Whether texts are what their schemas say, by the PyPI package jsonschema. A program of its own: the package lives in .venv.

    schema_judge.py < LINES     of {"schema", "text"}; prints a line for each: what is wrong, as JSON, "" if nothing
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
