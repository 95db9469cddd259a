"""Runs calls of the client text-generation in its own venv. Reads lines of JSON on stdin, {"call", "prompt", ...fields}. Answers each with
a line, {"answer"} or {"error", "message"}; for a stream also the data before the error.

    text_generation_calls.py URL [KEY]
"""
import asyncio
import json
import sys

import text_generation


def plain(value):
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


async def whole_and_streamed(client, prompt, **fields):
    whole = await client.generate(prompt, **fields)
    return [plain(whole), [plain(piece) async for piece in client.generate_stream(prompt, **fields)]]


def ask(url, headers, call, came, **fields):
    if call == "async":
        return asyncio.run(whole_and_streamed(text_generation.AsyncClient(url, headers, timeout=30), **fields))
    client = text_generation.Client(url, headers, timeout=30)
    answer = getattr(client, call)(**fields)
    if call == "generate_stream" or fields.get("stream"):
        for piece in answer:
            came.append(plain(piece))
        return came
    return plain(answer)


def main(url, key=None):
    headers = {"Authorization": f"Bearer {key}"} if key else None
    for line in sys.stdin:
        came = []
        try:
            reply = {"answer": ask(url, headers, came=came, **json.loads(line))}
        except Exception as e:  # noqa: BLE001 - which one is what the test wants to know
            reply = {"error": type(e).__name__, "message": str(e), "came": came}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
