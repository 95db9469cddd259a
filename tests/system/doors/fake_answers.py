"""Prompts that the fake head answers with a given text."""

import json


def prompt_for(text):
    return f"answer={text.encode().hex()}"


def say(content):
    return [{"role": "user", "content": content}]


def saying(text):
    return say(prompt_for(text))


def call(name, arguments, key="arguments"):
    """A tool call, as the fake head's model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "{key}": {json.dumps(arguments)}}}\n</tool_call>'
