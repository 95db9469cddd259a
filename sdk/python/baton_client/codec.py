"""Encodes messages to frames and decodes them. The only module that uses FlatBuffers.

FlatBuffers has no verifier for Python: errors while reading become BadFrame.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import flatbuffers
from flatbuffers import encode as fb_encode
from flatbuffers import packer

from .errors import BadFrame, BatonError
from .values import FINISH_REASONS, PHASES, Chunk, LogprobEntry, Model, TokenDetail, Tokenized
from .wire import Cancel as wire_cancel
from .wire import ChatMessage as wire_chat_message
from .wire import ChatPrompt as wire_chat_prompt
from .wire import Constraint as wire_constraint
from .wire import Credit as wire_credit
from .wire import Detokenize as wire_detokenize
from .wire import Drain as wire_drain
from .wire import Envelope as wire_envelope
from .wire import Generate as wire_generate
from .wire import Heartbeat as wire_heartbeat
from .wire import Hello as wire_hello
from .wire import IdsPrompt as wire_ids_prompt
from .wire import ListModels as wire_list_models
from .wire import LogitBias as wire_logit_bias
from .wire import Resume as wire_resume
from .wire import ResumePoint as wire_resume_point
from .wire import SamplingParams as wire_sampling
from .wire import Stopping as wire_stopping
from .wire import TemplateOptions as wire_template_options
from .wire import TextPrompt as wire_text_prompt
from .wire import Tokenize as wire_tokenize
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


def envelope(kind: int, source: Address, target: Address, correlation: int, sequence: int) -> bytes:
    b = flatbuffers.Builder(256)
    wire_envelope.EnvelopeStart(b)
    wire_envelope.EnvelopeAddVersion(b, PROTOCOL_VERSION)
    wire_envelope.EnvelopeAddKind(b, kind)
    wire_envelope.EnvelopeAddSource(b, source.node)
    wire_envelope.EnvelopeAddSourceEpoch(b, source.epoch)
    wire_envelope.EnvelopeAddTarget(b, target.node)
    wire_envelope.EnvelopeAddTargetEpoch(b, target.epoch)
    wire_envelope.EnvelopeAddSourceActor(b, source.actor)
    wire_envelope.EnvelopeAddTargetActor(b, target.actor)
    wire_envelope.EnvelopeAddCorrelation(b, correlation)
    wire_envelope.EnvelopeAddSequence(b, sequence)
    b.Finish(wire_envelope.EnvelopeEnd(b), file_identifier=b"BTEV")
    return bytes(b.Output())


def _int_vector(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    b.StartVector(4, len(values), 4)
    for value in reversed(values):
        b.PrependInt32(value)
    return b.EndVector()


def _offset_vector(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _text_prompt(b: flatbuffers.Builder, text: str) -> int:
    offset = b.CreateString(text)
    wire_text_prompt.TextPromptStart(b)
    wire_text_prompt.TextPromptAddText(b, offset)
    return wire_text_prompt.TextPromptEnd(b)


def _ids_prompt(b: flatbuffers.Builder, ids: Sequence[int]) -> int:
    offset = _int_vector(b, ids)
    wire_ids_prompt.IdsPromptStart(b)
    wire_ids_prompt.IdsPromptAddIds(b, offset)
    return wire_ids_prompt.IdsPromptEnd(b)


def _chat_prompt(b: flatbuffers.Builder, messages: Sequence[Dict[str, str]]) -> int:
    offsets = []
    for message in messages:
        texts = [b.CreateString(message.get(key) or "") for key in ("role", "content", "name")]
        wire_chat_message.ChatMessageStart(b)
        wire_chat_message.ChatMessageAddRole(b, texts[0])
        wire_chat_message.ChatMessageAddContent(b, texts[1])
        wire_chat_message.ChatMessageAddName(b, texts[2])
        offsets.append(wire_chat_message.ChatMessageEnd(b))
    vector = _offset_vector(b, offsets)
    wire_chat_prompt.ChatPromptStart(b)
    wire_chat_prompt.ChatPromptAddMessages(b, vector)
    return wire_chat_prompt.ChatPromptEnd(b)


def _prompt(b: flatbuffers.Builder, prompt, messages) -> tuple:
    if messages is not None:
        return Prompt.ChatPrompt, _chat_prompt(b, messages)
    if isinstance(prompt, str):
        return Prompt.TextPrompt, _text_prompt(b, prompt)
    return Prompt.IdsPrompt, _ids_prompt(b, list(prompt))


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
    structured_outputs: Optional[Dict[str, Any]] = None  # as vLLM's: {"json" | "regex" | "choice" | "grammar": ...} or {"json_object": True}
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


CONSTRAINT_KINDS = {"json_object": 1, "json": 2, "regex": 3, "choice": 4, "grammar": 5}


def _constraint(b: flatbuffers.Builder, asked: Dict[str, Any]) -> int:
    if not isinstance(asked, dict) or len(asked) != 1 or not set(asked) <= set(CONSTRAINT_KINDS):
        raise ValueError(f"structured_outputs has one of {', '.join(CONSTRAINT_KINDS)}")
    ((name, value),) = asked.items()
    is_text = isinstance(value, str) and name != "choice"
    text = b.CreateString("" if name == "json_object" else value if is_text else json.dumps(value))
    wire_constraint.ConstraintStart(b)
    wire_constraint.ConstraintAddKind(b, CONSTRAINT_KINDS[name])
    wire_constraint.ConstraintAddText(b, text)
    return wire_constraint.ConstraintEnd(b)


def _sampling(b: flatbuffers.Builder, p: GenerateParams, seed: int) -> int:
    constraint = None if p.structured_outputs is None else _constraint(b, p.structured_outputs)
    biases = list((p.logit_bias or {}).items())
    wire_sampling.SamplingParamsStartBiasesVector(b, len(biases))
    for token, bias in reversed(biases):
        wire_logit_bias.CreateLogitBias(b, int(token), float(bias))
    vector = b.EndVector()
    wire_sampling.SamplingParamsStart(b)
    if p.temperature is not None:
        wire_sampling.SamplingParamsAddTemperature(b, p.temperature)
    if p.top_k is not None:
        wire_sampling.SamplingParamsAddTopK(b, p.top_k)
    if p.top_p is not None:
        wire_sampling.SamplingParamsAddTopP(b, p.top_p)
    if p.min_p is not None:
        wire_sampling.SamplingParamsAddMinP(b, p.min_p)
    if p.repetition_penalty is not None:
        wire_sampling.SamplingParamsAddRepetitionPenalty(b, p.repetition_penalty)
    wire_sampling.SamplingParamsAddPresencePenalty(b, p.presence_penalty)
    wire_sampling.SamplingParamsAddFrequencyPenalty(b, p.frequency_penalty)
    wire_sampling.SamplingParamsAddSeed(b, seed)
    wire_sampling.SamplingParamsAddLogprobs(b, -1 if p.logprobs is None else p.logprobs)
    wire_sampling.SamplingParamsAddBiases(b, vector)
    if p.num_speculative_tokens is not None:
        wire_sampling.SamplingParamsAddNumSpeculativeTokens(b, p.num_speculative_tokens)
    if constraint is not None:
        wire_sampling.SamplingParamsAddConstraint(b, constraint)
    wire_sampling.SamplingParamsAddTypicalP(b, p.typical_p)
    wire_sampling.SamplingParamsAddWatermarkGamma(b, p.watermark_gamma)
    wire_sampling.SamplingParamsAddWatermarkDelta(b, p.watermark_delta)
    return wire_sampling.SamplingParamsEnd(b)


def _template_options(b: flatbuffers.Builder, p: GenerateParams) -> Optional[int]:
    if p.chat_template_kwargs is None and p.documents is None and not p.continue_final_message and p.add_special_tokens is None:
        return None
    if p.add_special_tokens is not None and not isinstance(p.add_special_tokens, bool):
        raise ValueError("add_special_tokens is True, False or None")
    if p.chat_template_kwargs is not None and not isinstance(p.chat_template_kwargs, dict):
        raise ValueError("chat_template_kwargs is a dict")
    if p.documents is not None and not all(isinstance(document, dict) for document in p.documents):
        raise ValueError("documents is a list of dicts")
    kwargs = b.CreateString(json.dumps(p.chat_template_kwargs)) if p.chat_template_kwargs else None
    documents = b.CreateString(json.dumps(list(p.documents))) if p.documents else None
    wire_template_options.TemplateOptionsStart(b)
    if kwargs is not None:
        wire_template_options.TemplateOptionsAddKwargs(b, kwargs)
    if documents is not None:
        wire_template_options.TemplateOptionsAddDocuments(b, documents)
    wire_template_options.TemplateOptionsAddContinuesFinal(b, p.continue_final_message)
    if p.add_special_tokens is not None:
        wire_template_options.TemplateOptionsAddSpecial(b, SpecialTokens.added if p.add_special_tokens else SpecialTokens.omitted)
    return wire_template_options.TemplateOptionsEnd(b)


def _stopping(b: flatbuffers.Builder, p: GenerateParams) -> int:
    texts = _offset_vector(b, [b.CreateString(text) for text in p.stop])
    ids = _int_vector(b, p.stop_token_ids)
    wire_stopping.StoppingStart(b)
    if p.max_tokens is not None:
        wire_stopping.StoppingAddTokensMax(b, p.max_tokens)
    wire_stopping.StoppingAddTokensMin(b, p.min_tokens)
    wire_stopping.StoppingAddIgnoreEos(b, p.ignore_eos)
    wire_stopping.StoppingAddIncludeStopText(b, p.include_stop_str_in_output)
    wire_stopping.StoppingAddStopIds(b, ids)
    wire_stopping.StoppingAddStopTexts(b, texts)
    return wire_stopping.StoppingEnd(b)


def _finished(b: flatbuffers.Builder, kind: int, root: int) -> bytes:
    b.Finish(root, file_identifier=_identifier(kind))
    return bytes(b.Output())


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
    b = flatbuffers.Builder(1024)
    model_text = b.CreateString(model)
    form, input_table = _prompt(b, prompt, messages)
    sampling = _sampling(b, params, seed)
    stopping = _stopping(b, params)
    salt = b.CreateString(params.cache_salt) if params.cache_salt else None
    name = b.CreateString(params.request_id) if params.request_id else None
    template_options = _template_options(b, params)
    wire_generate.GenerateStart(b)
    wire_generate.GenerateAddRequest(b, request)
    wire_generate.GenerateAddModel(b, model_text)
    wire_generate.GenerateAddInputType(b, form)
    wire_generate.GenerateAddInput(b, input_table)
    wire_generate.GenerateAddChoices(b, params.n)
    wire_generate.GenerateAddSampling(b, sampling)
    wire_generate.GenerateAddStop(b, stopping)
    wire_generate.GenerateAddTokensMaxGiven(b, params.max_tokens is not None)
    wire_generate.GenerateAddDeadlineMs(b, deadline_ms)
    if salt is not None:
        wire_generate.GenerateAddCacheSalt(b, salt)
    wire_generate.GenerateAddPriority(b, params.priority)
    wire_generate.GenerateAddIsResumable(b, is_resumable)
    if name is not None:
        wire_generate.GenerateAddRequestId(b, name)
    wire_generate.GenerateAddUnsaid(b, _unsaid(params))
    if template_options is not None:
        wire_generate.GenerateAddTemplateOptions(b, template_options)
    return _finished(b, MessageKind.generate, wire_generate.GenerateEnd(b))


def hello(
    us: Address,
    name: str,
    pid: int,
    api_key: str = "",
    role: int = Role.client,
    load_micros: int = 0,
) -> bytes:
    b = flatbuffers.Builder(256)
    text = b.CreateString(name)
    key = b.CreateString(api_key) if api_key else None
    wire_hello.HelloStart(b)
    wire_hello.HelloAddNode(b, us.node)
    wire_hello.HelloAddEpoch(b, us.epoch)
    wire_hello.HelloAddRole(b, role)
    wire_hello.HelloAddName(b, text)
    wire_hello.HelloAddPid(b, pid)
    if key is not None:
        wire_hello.HelloAddApiKey(b, key)
    wire_hello.HelloAddLoadMicros(b, load_micros)
    return _finished(b, MessageKind.hello, wire_hello.HelloEnd(b))


def heartbeat(count: int) -> bytes:
    b = flatbuffers.Builder(64)
    wire_heartbeat.HeartbeatStart(b)
    wire_heartbeat.HeartbeatAddCount(b, count)
    wire_heartbeat.HeartbeatAddSteps(b, count)
    return _finished(b, MessageKind.heartbeat, wire_heartbeat.HeartbeatEnd(b))


def drain() -> bytes:
    b = flatbuffers.Builder(64)
    wire_drain.DrainStart(b)
    return _finished(b, MessageKind.drain, wire_drain.DrainEnd(b))


def credit(bytes_total: int) -> bytes:
    b = flatbuffers.Builder(64)
    wire_credit.CreditStart(b)
    wire_credit.CreditAddBytesTotal(b, bytes_total)
    return _finished(b, MessageKind.credit, wire_credit.CreditEnd(b))


def cancel(ticket: int) -> bytes:
    b = flatbuffers.Builder(64)
    wire_cancel.CancelStart(b)
    wire_cancel.CancelAddTicket(b, ticket)
    return _finished(b, MessageKind.cancel, wire_cancel.CancelEnd(b))


@dataclass(frozen=True)
class Place:
    """How much of a choice has been received: its first `index` tokens, and its end."""

    index: int = 0
    has_finish: bool = False


def resume(request: int, ticket: int, resume_key: int, places: Sequence[Place]) -> bytes:
    b = flatbuffers.Builder(256)
    wire_resume.ResumeStartFrom_Vector(b, len(places))
    for place in reversed(places):
        wire_resume_point.CreateResumePoint(b, place.index, place.has_finish)
    vector = b.EndVector()
    wire_resume.ResumeStart(b)
    wire_resume.ResumeAddRequest(b, request)
    wire_resume.ResumeAddTicket(b, ticket)
    wire_resume.ResumeAddResumeKey(b, resume_key)
    wire_resume.ResumeAddFrom_(b, vector)
    return _finished(b, MessageKind.resume, wire_resume.ResumeEnd(b))


def list_models(request: int) -> bytes:
    b = flatbuffers.Builder(64)
    wire_list_models.ListModelsStart(b)
    wire_list_models.ListModelsAddRequest(b, request)
    return _finished(b, MessageKind.list_models, wire_list_models.ListModelsEnd(b))


def tokenize(request: int, prompt, messages, add_generation_prompt: bool) -> bytes:
    b = flatbuffers.Builder(1024)
    form, input_table = _prompt(b, prompt, messages)
    wire_tokenize.TokenizeStart(b)
    wire_tokenize.TokenizeAddRequest(b, request)
    wire_tokenize.TokenizeAddInputType(b, form)
    wire_tokenize.TokenizeAddInput(b, input_table)
    wire_tokenize.TokenizeAddAddGenerationPrompt(b, add_generation_prompt)
    return _finished(b, MessageKind.tokenize, wire_tokenize.TokenizeEnd(b))


def detokenize(request: int, ids: Sequence[int]) -> bytes:
    b = flatbuffers.Builder(1024)
    vector = _int_vector(b, ids)
    wire_detokenize.DetokenizeStart(b)
    wire_detokenize.DetokenizeAddRequest(b, request)
    wire_detokenize.DetokenizeAddIds(b, vector)
    return _finished(b, MessageKind.detokenize, wire_detokenize.DetokenizeEnd(b))


# -- In --


def _text(value: Optional[bytes]) -> str:
    return value.decode("utf-8", "replace") if value is not None else ""


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


def _read_chunk(t: WireChunk) -> Chunk:
    return Chunk(
        choice=t.Choice(),
        index=t.Index(),
        text=_text(t.Text()),
        ids=[t.Ids(i) for i in range(t.IdsLength())],
        finish_reason=FINISH_REASONS[t.Finish()],
        prompt_tokens=t.PromptTokens(),
        output_tokens=t.OutputTokens(),
        cached_tokens=t.CachedTokens(),
        ticket=t.Ticket(),
        stop_text=_text(t.StopText()),
        logprobs=[_detail(t.Details(i)) for i in range(t.DetailsLength())],
        failure=_optional_error(t.Failure()),
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
    return [
        Model(
            name=_text(c.Name()),
            architecture=_text(c.Architecture()),
            parameters=c.Parameters(),
            context_max=c.ContextMax(),
            vocabulary_size=c.VocabularySize(),
            sequences_max=c.SequencesMax(),
            created=c.Created(),
            has_chat_template=bool(c.HasChatTemplate()),
            phase=PHASES[c.Phase()] or "",
            reason=_text(c.Reason()),
            chat_template_failure=_text(c.ChatTemplateFailure()),
        )
        for c in cards
    ]


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
