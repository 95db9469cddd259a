"""The Python SDK over ZeroMQ: pip install sdk/python; python examples/sdk_chat.py [ENDPOINT]"""
import sys

from baton_client import Client

with Client(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:8002") as client:
    print([model.name for model in client.models()])
    for chunk in client.stream(messages=[{"role": "user", "content": "Why is the sky blue?"}], max_tokens=60, temperature=0):
        print(chunk.text, end="", flush=True)
    print(f"\n({chunk.output_tokens} tokens)")
