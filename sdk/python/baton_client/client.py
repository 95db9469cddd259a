"""The public API of the SDK: generate, stream, cancel, chat, models."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import codec, inference
from .connection import Connection
from .errors import BatonError, DeadlineExceeded
from .inference import Headers, Infer, Inferred
from .tensors import Tensor
from .values import Answer, Chunk, Model, Tokenized
from .wire.MessageKind import MessageKind

Prompt = Union[str, Sequence[int]]
Messages = Sequence[Dict[str, str]]

CHOICES_MAX = 128  # of the protocol; servers allow fewer


class Stream:
    """Iterator over the chunks of one request. Leaving it unfinished (close, with, del) cancels it.

    A failed choice, a rejection and a lost connection are raised as BatonError.
    """

    def __init__(self, connection: Connection, request: int, choices: int, timeout: float):
        self._connection = connection
        self._request = request
        self._choices_open = choices
        self._timeout = timeout

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        chunk = self.next()
        if chunk is None:
            raise StopIteration
        return chunk

    def next(self, timeout: Optional[float] = None) -> Optional[Chunk]:
        """The next chunk, None once every choice has ended. After DeadlineExceeded, call it again."""
        if self._choices_open == 0:
            return None
        try:
            chunk = self._connection.take(
                self._request, self._timeout if timeout is None else timeout
            )
        except DeadlineExceeded:
            raise
        except BatonError:
            self._end()
            raise
        if chunk.finish_reason is not None:
            self._choices_open -= 1
            if self._choices_open == 0:
                self._connection.forget(self._request)
        if chunk.finish_reason == "failed":
            self.close()
            raise chunk.failure or BatonError(70, "internal", "the answer failed without a reason")
        return chunk

    def cancel(self) -> None:
        """Asks the server to end all choices; their last chunks ("cancelled") still arrive."""
        if self._choices_open:
            self._connection.cancel(self._request)

    def close(self) -> None:
        if self._choices_open:
            self._connection.cancel(self._request)
            self._end()

    @property
    def ticket(self) -> int:
        """0 before the request was granted."""
        return self._connection.ticket_of(self._request)

    def _end(self) -> None:
        self._choices_open = 0
        self._connection.forget(self._request)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_choices_open", 0):
            self.close()


class Pieces:
    """Iterator over the pieces of a worker model's answer. Leaving it unfinished cancels it.

    A failure and a rejection are raised as BatonError.
    """

    def __init__(self, connection: Connection, request: int, timeout: float):
        self._connection = connection
        self._request = request
        self._timeout = timeout
        self._is_open = True

    def __iter__(self) -> Iterator[Inferred]:
        return self

    def __next__(self) -> Inferred:
        if not self._is_open:
            raise StopIteration
        try:
            piece = self._connection.take(self._request, self._timeout)
        except DeadlineExceeded:
            raise
        except BatonError:
            self._end()
            raise
        if piece.is_last:
            self._end()
        if piece.failure is not None:
            raise piece.failure
        return piece

    def close(self) -> None:
        if self._is_open:
            self._connection.cancel(self._request)
            self._end()

    def _end(self) -> None:
        self._is_open = False
        self._connection.forget(self._request)

    def __enter__(self) -> "Pieces":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.close()


def _seed_of(request_id: str) -> int:
    """A request with an id draws the same tokens when it is sent again."""
    if not request_id:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8], "little") >> 1


class Client:
    """A connection to a gateway's ZeroMQ API; may be used from any thread.

    `timeout`: seconds to wait for the next chunk or an answer; a call may override it.
    `reconnect_timeout`: seconds to try to reconnect after a lost connection.
    `Client` resumes open streams meanwhile, and calls wait. 0: they end with LinkDown at once.
    `api_key`: if the gateway requires one; a wrong one raises BatonError "unauthorized".
    """

    def __init__(
        self,
        endpoint: str = "tcp://127.0.0.1:8002",
        *,
        model: Optional[str] = None,
        timeout: float = 60.0,
        connect_timeout: float = 5.0,
        reconnect_timeout: float = 30.0,
        name: str = "baton-client-python",
        api_key: str = "",
    ):
        self._timeout = timeout
        self._model = model
        self._is_resumable = reconnect_timeout > 0
        self._connection = Connection(
            endpoint, name, connect_timeout, reconnect_timeout, api_key
        )

    def stream(
        self,
        prompt: Optional[Prompt] = None,
        *,
        messages: Optional[Messages] = None,
        model: Optional[str] = None,
        timeout: Optional[float] = None,
        deadline: float = 0.0,
        **params,
    ) -> Stream:
        """Chunks of the answer to a text, to token ids, or to a conversation.

        `params`: fields of codec.GenerateParams (max_tokens, temperature, stop, seed, n ...).
        `deadline`: seconds for the whole answer, enforced by the cluster; 0: none.
        """
        if (prompt is None) == (messages is None):
            raise TypeError("give either a prompt or messages")
        asked = codec.GenerateParams(**params)
        if not 1 <= asked.n <= CHOICES_MAX:  # before allocating anything per choice
            wrong = f"'n' must be between 1 and {CHOICES_MAX}, not {asked.n}"
            raise BatonError(3, "invalid_value", wrong, param="n")
        if isinstance(asked.stop, str):
            asked.stop = [asked.stop]
        seed = asked.seed if asked.seed is not None else _seed_of(asked.request_id)
        name = model or self._model or self._first_model()
        request = self._connection.ask(
            MessageKind.generate,
            lambda number: codec.generate(
                number,
                name,
                prompt,
                messages,
                asked,
                seed,
                int(deadline * 1000),
                self._is_resumable,
            ),
            choices=asked.n,
        )
        return Stream(self._connection, request, asked.n, timeout or self._timeout)

    def generate(self, prompt: Optional[Prompt] = None, **options) -> Answer:
        """The whole answer. With n > 1 use generate_all. `timeout` covers all of it here."""
        return self.generate_all(prompt, **options)[0]

    def generate_all(self, prompt: Optional[Prompt] = None, **options) -> List[Answer]:
        """The answers of all n choices."""
        timeout = options.get("timeout") or self._timeout
        end = time.monotonic() + timeout
        with self.stream(prompt, **options) as chunks:
            answers = [Answer("", None, 0, 0) for _ in range(options.get("n", 1))]
            while True:
                chunk = chunks.next(max(0.0, end - time.monotonic()))
                if chunk is None:
                    return answers
                answer = answers[chunk.choice]
                answer.text += chunk.text
                answer.finish_reason = chunk.finish_reason
                answer.prompt_tokens = chunk.prompt_tokens
                answer.output_tokens = chunk.output_tokens
                answer.cached_tokens = chunk.cached_tokens
                answer.logprobs += chunk.logprobs

    def chat(self, messages: Messages, **options) -> Answer:
        """The assistant's answer to a conversation: [{"role": "user", "content": "Hi"}]."""
        return self.generate(messages=messages, **options)

    def infer(self, model: str, inputs: Sequence[Tensor] = (), **options) -> Inferred:
        """A worker model's answer, which must be a single piece; options as in infer_stream."""
        with self.infer_stream(model, inputs, **options) as pieces:
            only = next(pieces)
            for more in pieces:
                if more.body or more.outputs:
                    raise BatonError(3, "invalid_value", "the answer has several pieces: use infer_stream")
            return only

    def infer_stream(
        self,
        model: str,
        inputs: Sequence[Tensor] = (),
        *,
        body: bytes = b"",
        content_type: str = "",
        version: str = "",
        outputs: Sequence[str] = (),
        parameters: Optional[Dict[str, Any]] = None,
        headers: Headers = (),
        request_id: str = "",
        deadline: float = 0.0,
        timeout: Optional[float] = None,
    ) -> Pieces:
        """Streams the pieces of a worker model's answer to named tensors or one body, or of a language
        model's answer to the tensors of Triton's vLLM backend.

        A worker receives a request again, once, if the first attempt ends before its first piece. A client that
        reconnects sends it again, so it may run twice.
        """
        asked = Infer(
            model=model,
            version=version,
            inputs=list(inputs),
            outputs=list(outputs),
            body=body,
            content_type=content_type,
            headers=list(headers),
            parameters_json=inference.json_of(parameters),
            request_id=request_id,
            deadline=deadline,
        )

        def body_of(number: int) -> bytes:
            asked.request = number
            return inference.infer(asked)

        request = self._connection.ask(MessageKind.infer, body_of)
        return Pieces(self._connection, request, timeout or self._timeout)

    def models(self) -> List[Model]:
        return self._call(MessageKind.list_models, codec.list_models)

    def tokenize(
        self,
        prompt: Optional[Prompt] = None,
        *,
        messages: Optional[Messages] = None,
        add_generation_prompt: bool = True,
    ) -> Tokenized:
        if (prompt is None) == (messages is None):
            raise TypeError("give either a prompt or messages")
        return self._call(
            MessageKind.tokenize,
            lambda number: codec.tokenize(number, prompt, messages, add_generation_prompt),
        )

    def detokenize(self, ids: Sequence[int]) -> str:
        return self._call(MessageKind.detokenize, lambda number: codec.detokenize(number, ids))

    @property
    def is_open(self) -> bool:
        """False once the connection is lost for good."""
        return self._connection.is_open

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    def _call(self, kind: int, body_of):
        request = self._connection.ask(kind, body_of)
        try:
            return self._connection.take(request, self._timeout)
        finally:
            self._connection.forget(request)

    def _first_model(self) -> str:
        served = self.models()
        if not served:
            raise BatonError(7, "model_not_found", "the gateway serves no model")
        self._model = served[0].name
        return self._model
