"""Encodes messages to frames and decodes them, with the fields of tables.py.

FlatBuffers has no verifier for Python: errors while reading become BadFrame.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import flatbuffers
from flatbuffers import encode as fb_encode
from flatbuffers import packer

from .errors import BadFrame, BatonError
from .tables import offset_vector as _offset_vector
from .tables import read, readers, with_fields_of, write
from .tables import text as _text
from .values import FINISH_REASONS, PHASES, Chunk, LogprobEntry, Model, TokenDetail, Tokenized
from .wire.Chunk import Chunk as WireChunk
from .wire.Detokenized import Detokenized as WireDetokenized
from .wire.Envelope import Envelope as WireEnvelope
from .wire.Granted import Granted as WireGranted
from .wire.HelloAck import HelloAck as WireHelloAck
from .wire.MessageKind import MessageKind
from .wire.Models import Models as WireModels
from .wire.Prompt import Prompt
from .wire.Rejected import Rejected as WireRejected
from .wire.Role import Role
from .wire.SpecialTokens import SpecialTokens
from .wire.Tokenized import Tokenized as WireTokenized

PROTOCOL_VERSION = 1
DATA_KINDS = frozenset(
    {MessageKind.chunk, MessageKind.tokenized, MessageKind.detokenized, MessageKind.inferred}
)


@dataclass
class Address:
    node: int
    epoch: int
    actor: int


@dataclass
class Received:
    """A message of the server: its kind, the request that it answers, and its value."""

    kind: int
    source: int
    source_epoch: int
    sequence: int
    size: int  # bytes of its parts
    request: int
    value: Any


# -- The packet (docs/reference/protocol.md): a message as one frame --

_SIZES = struct.Struct("<4I")  # bytes of envelope, body and bulk; 0: no checksum


def _after(at: int, alignment: int) -> int:
    return (at + alignment - 1) // alignment * alignment


def pack(head: bytes, body: bytes) -> bytes:
    sizes = _SIZES.pack(len(head), len(body), 0, 0)
    body_at = _after(len(sizes) + len(head), 16)
    end = _after(body_at + len(body), 16)
    return (sizes + head).ljust(body_at, b"\0") + body.ljust(end - body_at, b"\0")


def unpack(packet: bytes) -> Tuple[bytes, bytes, bytes]:
    """Raises ValueError, struct.error."""
    head_size, body_size, bulk_size, zero = _SIZES.unpack_from(packet)
    body_at = _after(_SIZES.size + head_size, 16)
    bulk_at = _after(body_at + body_size, 64 if bulk_size else 16)
    if bulk_at + bulk_size != len(packet) or zero:
        raise ValueError(f"a packet of {len(packet)} bytes says that it has {bulk_at + bulk_size}")
    return (
        packet[_SIZES.size : _SIZES.size + head_size],
        packet[body_at : body_at + body_size],
        packet[bulk_at:],
    )


# -- Out --


def _identifier(kind: int) -> bytes:
    return b"BT%02d" % kind


def _written(identifier: bytes, table: str, values: Dict[str, Any], size: int = 64) -> bytes:
    b = flatbuffers.Builder(size)
    b.Finish(write(b, table, values), file_identifier=identifier)
    return bytes(b.Output())


def _finished(b: flatbuffers.Builder, kind: int, root: int) -> bytes:
    b.Finish(root, file_identifier=_identifier(kind))
    return bytes(b.Output())


def envelope(kind: int, source: Address, target: Address, correlation: int, sequence: int) -> bytes:
    values = {
        "version": PROTOCOL_VERSION,
        "kind": kind,
        "source": source.node,
        "source_epoch": source.epoch,
        "target": target.node,
        "target_epoch": target.epoch,
        "source_actor": source.actor,
        "target_actor": target.actor,
        "correlation": correlation,
        "sequence": sequence,
    }
    return _written(b"BTEV", "Envelope", values, 256)


def _prompt(prompt, messages) -> Dict[str, Any]:
    if messages is not None:
        chat = [{key: message.get(key) or "" for key in ("role", "content", "name")} for message in messages]
        return {"input_type": Prompt.ChatPrompt, "input": ("ChatPrompt", {"messages": chat})}
    if isinstance(prompt, str):
        return {"input_type": Prompt.TextPrompt, "input": ("TextPrompt", {"text": prompt})}
    return {"input_type": Prompt.IdsPrompt, "input": ("IdsPrompt", {"ids": list(prompt)})}


@dataclass
class GenerateParams:
    """Names and defaults are OpenAI's, where it has the parameter, else vLLM's."""

    # None: the model's default, if it has one; else 1, all tokens (0), 1, 0 and 1.
    temperature: Optional[float] = None
    top_k: Optional[int] = None
    top_p: Optional[float] = None
    min_p: Optional[float] = None
    repetition_penalty: Optional[float] = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: Optional[int] = None  # None: chosen at random by the client
    logprobs: Optional[int] = None  # 0: of the sampled token; n: also of the n most likely
    logit_bias: Optional[Dict[int, float]] = None
    max_tokens: Optional[int] = None  # None: the model's default, else the rest of the context
    min_tokens: int = 0
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    n: int = 1
    cache_salt: str = ""  # cached prompts are shared by requests with the same salt
    num_speculative_tokens: Optional[int] = None  # draft tokens checked per step; None: the server's setting
    priority: int = 0  # lower is served earlier; nonzero only if scheduling_policy is "priority"
    request_id: str = ""  # two requests with one id run once, and both get the same answer
    typical_p: float = 1.0
    watermark_gamma: float = 0.0  # the share of green tokens, 0: no watermark; see watermark.py
    watermark_delta: float = 0.0  # added to the logits of green tokens
    structured_outputs: Optional[Dict[str, Any]] = None  # as vLLM's: {"json" | "regex" | "choice" | "grammar" | "structural_tag": ...} or {"json_object": True}
    # BOS, where the model's prompts begin with it; None: before a text, not before a conversation.
    add_special_tokens: Optional[bool] = None
    # For a conversation: variables of the model's chat template, as in vLLM.
    chat_template_kwargs: Optional[Dict[str, Any]] = None
    documents: Optional[Sequence[Dict[str, Any]]] = None
    continue_final_message: bool = False  # the answer continues the last message


# Bits of Generate.unsaid: sampling_field in schema/sampling_defaults.hpp.
UNSAID_BITS = {"temperature": 1, "top_k": 2, "top_p": 4, "min_p": 8, "repetition_penalty": 16, "max_tokens": 32}


def _unsaid(p: GenerateParams) -> int:
    return sum(bit for name, bit in UNSAID_BITS.items() if getattr(p, name) is None)


CONSTRAINT_KINDS = {"json_object": 1, "json": 2, "regex": 3, "choice": 4, "grammar": 5, "structural_tag": 8}


def _constraint(asked: Dict[str, Any]) -> Dict[str, Any]:
    if not isinstance(asked, dict) or len(asked) != 1 or not set(asked) <= set(CONSTRAINT_KINDS):
        raise ValueError(f"structured_outputs has one of {', '.join(CONSTRAINT_KINDS)}")
    ((name, value),) = asked.items()
    is_text = isinstance(value, str) and name != "choice"
    text = "" if name == "json_object" else value if is_text else json.dumps(value)
    return {"kind": CONSTRAINT_KINDS[name], "text": text}


def _sampling(p: GenerateParams, seed: int) -> Dict[str, Any]:
    """Fields whose names or forms differ; with_fields_of adds the others."""
    values: Dict[str, Any] = {"seed": seed}
    if p.structured_outputs is not None:
        values["constraint"] = _constraint(p.structured_outputs)
    values["biases"] = [(int(token), float(bias)) for token, bias in (p.logit_bias or {}).items()]
    return with_fields_of(p, "SamplingParams", values)


def _template_options(p: GenerateParams) -> Optional[Dict[str, Any]]:
    if p.chat_template_kwargs is None and p.documents is None and not p.continue_final_message and p.add_special_tokens is None:
        return None
    if p.add_special_tokens is not None and not isinstance(p.add_special_tokens, bool):
        raise ValueError("add_special_tokens is True, False or None")
    if p.chat_template_kwargs is not None and not isinstance(p.chat_template_kwargs, dict):
        raise ValueError("chat_template_kwargs is a dict")
    if p.documents is not None and not all(isinstance(document, dict) for document in p.documents):
        raise ValueError("documents is a list of dicts")
    values: Dict[str, Any] = {"continues_final": p.continue_final_message}
    if p.chat_template_kwargs:
        values["kwargs"] = json.dumps(p.chat_template_kwargs)
    if p.documents:
        values["documents"] = json.dumps(list(p.documents))
    if p.add_special_tokens is not None:
        values["special"] = SpecialTokens.added if p.add_special_tokens else SpecialTokens.omitted
    return values


def _stopping(p: GenerateParams) -> Dict[str, Any]:
    """As `_sampling`."""
    return with_fields_of(
        p,
        "Stopping",
        {
            "stop_texts": list(p.stop),
            "stop_ids": list(p.stop_token_ids),
            "include_stop_text": p.include_stop_str_in_output,
        },
    )


def generate(
    request: int,
    model: str,
    prompt,
    messages,
    params: GenerateParams,
    seed: int,
    deadline_ms: int,
    is_resumable: bool = False,
) -> bytes:
    values = {
        "request": request,
        "model": model,
        **_prompt(prompt, messages),
        "choices": params.n,
        "sampling": _sampling(params, seed),
        "stop": _stopping(params),
        "tokens_max_given": params.max_tokens is not None,
        "deadline_ms": deadline_ms,
        "is_resumable": is_resumable,
        "unsaid": _unsaid(params),
    }
    values = with_fields_of(params, "Generate", values)
    template_options = _template_options(params)
    if template_options is not None:
        values["template_options"] = template_options
    return _message("generate", "Generate", values, 1024)


def _message(kind: str, table: str, values: Dict[str, Any], size: int = 64) -> bytes:
    return _written(_identifier(getattr(MessageKind, kind)), table, values, size)


def hello(
    us: Address,
    name: str,
    pid: int,
    api_key: str = "",
    role: int = Role.client,
    load_micros: int = 0,
) -> bytes:
    values = {"node": us.node, "epoch": us.epoch, "role": role, "name": name, "pid": pid, "load_micros": load_micros}
    if api_key:
        values["api_key"] = api_key
    return _message("hello", "Hello", values, 256)


def heartbeat(count: int) -> bytes:
    return _message("heartbeat", "Heartbeat", {"count": count, "steps": count})


def drain() -> bytes:
    return _message("drain", "Drain", {})


def credit(bytes_total: int) -> bytes:
    return _message("credit", "Credit", {"bytes_total": bytes_total})


def cancel(ticket: int) -> bytes:
    return _message("cancel", "Cancel", {"ticket": ticket})


@dataclass(frozen=True)
class Place:
    """How much of a choice has been received: its first `index` tokens, and its end."""

    index: int = 0
    has_finish: bool = False


def resume(request: int, ticket: int, resume_key: int, places: Sequence[Place]) -> bytes:
    points = [(place.index, place.has_finish) for place in places]
    values = {"request": request, "ticket": ticket, "resume_key": resume_key, "from": points}
    return _message("resume", "Resume", values, 256)


def list_models(request: int) -> bytes:
    return _message("list_models", "ListModels", {"request": request})


def tokenize(request: int, prompt, messages, add_generation_prompt: bool) -> bytes:
    values = {"request": request, **_prompt(prompt, messages), "add_generation_prompt": add_generation_prompt}
    return _message("tokenize", "Tokenize", values, 1024)


def detokenize(request: int, ids: Sequence[int]) -> bytes:
    return _message("detokenize", "Detokenize", {"request": request, "ids": ids}, 1024)


# -- In --


def _error(table, retry_after_ms: int = 0) -> BatonError:
    if table is None:
        return BatonError(70, "internal", "the door gave no reason")
    return BatonError(
        table.Code(),
        _text(table.Name()) or f"error_{table.Code()}",
        _text(table.Message()),
        param=_text(table.Param()),
        retryable=bool(table.Retryable()),
        retry_after=retry_after_ms / 1000 if retry_after_ms > 0 else None,
    )


def _optional_error(table) -> Optional[BatonError]:
    return None if table is None else _error(table)


def _entry(table) -> LogprobEntry:
    if table is None:
        raise ValueError("a token without its text")
    text = bytes(table.Text(i) for i in range(table.TextLength()))
    return LogprobEntry(table.Token(), text, table.Logprob())


def _detail(table) -> TokenDetail:
    top = [_entry(table.Top(i)) for i in range(table.TopLength())]
    return TokenDetail(_entry(table.Chosen()), top)


# Fields of the same name in the table and the value.
_CHUNK = readers("Chunk", (field.name for field in fields(Chunk)))
_MODEL = readers("ModelCard", (field.name for field in fields(Model) if field.name != "phase"))


def _read_chunk(t: WireChunk) -> Chunk:
    return Chunk(
        finish_reason=FINISH_REASONS[t.Finish()],
        logprobs=[_detail(t.Details(i)) for i in range(t.DetailsLength())],
        failure=_optional_error(t.Failure()),
        **read(t, _CHUNK),
    )


def _read_tokenized(t: WireTokenized):
    if t.Failure() is not None:
        return _error(t.Failure())
    joined = bytes(t.PieceBytes(i) for i in range(t.PieceBytesLength()))
    pieces: List[bytes] = []
    begin = 0
    for i in range(t.PieceEndsLength()):
        end = t.PieceEnds(i)
        if not begin <= end <= len(joined):
            raise ValueError("a piece ends outside of the text")
        pieces.append(joined[begin:end])
        begin = end
    return Tokenized([t.Ids(i) for i in range(t.IdsLength())], pieces, t.ContextMax())


def _read_detokenized(t: WireDetokenized):
    return _error(t.Failure()) if t.Failure() is not None else _text(t.Text())


def _read_models(t: WireModels) -> List[Model]:
    cards = [t.Cards(i) for i in range(t.CardsLength())]
    return [Model(phase=PHASES[c.Phase()] or "", **read(c, _MODEL)) for c in cards]


@dataclass
class Greeting:
    node: int
    epoch: int
    window_bytes: int
    refused: Optional[BatonError]


def _read_hello_ack(t: WireHelloAck) -> Greeting:
    return Greeting(t.Node(), t.Epoch(), t.CreditBytes(), _optional_error(t.Refused()))


# Message kinds of the server: the table, and the function that reads it. inference.py has those of worker models.
READERS: Dict[int, tuple] = {
    MessageKind.hello_ack: (WireHelloAck, _read_hello_ack),
    MessageKind.granted: (WireGranted, lambda t: (t.Ticket(), t.ResumeKey())),
    MessageKind.rejected: (WireRejected, lambda t: _error(t.Reason(), t.RetryAfterMs())),
    MessageKind.chunk: (WireChunk, _read_chunk),
    MessageKind.models: (WireModels, _read_models),
    MessageKind.tokenized: (WireTokenized, _read_tokenized),
    MessageKind.detokenized: (WireDetokenized, _read_detokenized),
}


def _root(table: Callable, buffer: bytes, identifier: bytes):
    if len(buffer) < 8 or buffer[4:8] != identifier:
        raise ValueError(f"not a {identifier.decode()} frame")
    if fb_encode.Get(packer.uoffset, buffer, 0) >= len(buffer):
        raise ValueError("the root is outside of the frame")
    return table.GetRootAs(buffer, 0)


def decode(packet: bytes) -> Received:
    """Raises BadFrame. A kind that clients do not need has no value."""
    try:
        head, body, _ = unpack(packet)
        e = _root(WireEnvelope, head, b"BTEV")
        if e.Version() != PROTOCOL_VERSION:
            raise ValueError(f"the door speaks version {e.Version()}, we {PROTOCOL_VERSION}")
        received = Received(
            e.Kind(), e.Source(), e.SourceEpoch(), e.Sequence(), len(head) + len(body), 0, None
        )
        if received.kind in READERS:
            table, read = READERS[received.kind]
            root = _root(table, body, _identifier(received.kind))
            received.request = root.Request() if hasattr(root, "Request") else 0
            received.value = read(root)
        return received
    except (ValueError, IndexError, TypeError, KeyError, struct.error) as wrong:
        raise BadFrame(str(wrong)) from wrong
