"""Two answers at once over one WebSocket: pip install websockets; python examples/websocket_chat.py [URL]"""
import asyncio
import json
import sys

import websockets

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
QUESTIONS = {"sky": "Why is the sky blue?", "sea": "Why is the sea salty?"}


async def main():
    async with websockets.connect(url.replace("http", "ws", 1) + "/v1/stream") as socket:
        for name, question in QUESTIONS.items():
            await socket.send(json.dumps({"type": "start", "id": name, "model": "smollm2", "max_tokens": 60, "temperature": 0,
                                          "messages": [{"role": "user", "content": question}]}))
        answers = {name: "" for name in QUESTIONS}
        open_answers = set(QUESTIONS)
        while open_answers:
            event = json.loads(await socket.recv())
            if event["type"] == "tokens":
                answers[event["id"]] += event["text"]
            elif event["type"] in ("done", "error"):
                open_answers.discard(event["id"])
                print(f"{event['id']}: {answers[event['id']]}\n  {event.get('usage') or event.get('error')}")


asyncio.run(main())
