"""Client of a Baton gateway's ZeroMQ API.

    from baton_client import Client

    with Client("tcp://127.0.0.1:8002") as client:
        print(client.generate("Once upon a time", max_tokens=32).text)
        for chunk in client.stream(messages=[{"role": "user", "content": "Why is the sky blue?"}]):
            print(chunk.text, end="", flush=True)
"""

from .client import Client, Pieces, Stream
from .errors import BatonError, DeadlineExceeded, LinkDown, SlowReader
from .inference import Inferred
from .tensors import Tensor
from .values import Answer, Chunk, LogprobEntry, Model, TokenDetail, Tokenized

__all__ = [
    "Answer",
    "BatonError",
    "Chunk",
    "Client",
    "DeadlineExceeded",
    "Inferred",
    "LinkDown",
    "SlowReader",
    "LogprobEntry",
    "Model",
    "Pieces",
    "Stream",
    "Tensor",
    "TokenDetail",
    "Tokenized",
]
