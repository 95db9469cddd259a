"""Answers of the server as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from .errors import BatonError

# Finish in schema/api.fbs.
FINISH_REASONS = (None, "stop", "length", "cancelled", "failed")
PHASES = (None, "starting", "loading", "ready", "recovering", "draining", "stopped", "failed", "unloaded")


@dataclass
class LogprobEntry:
    token: int
    text: bytes  # not always valid UTF-8 alone
    logprob: float


@dataclass
class TokenDetail:
    chosen: LogprobEntry
    top: List[LogprobEntry]


@dataclass
class Chunk:
    """Text with the tokens it covers; the last of each choice has a finish_reason."""

    choice: int
    index: int  # the text ends with this many output tokens covered
    text: str
    ids: List[int]
    finish_reason: Optional[str]  # stop, length, cancelled
    prompt_tokens: int
    output_tokens: int
    ticket: int
    stop_text: str = ""
    logprobs: List[TokenDetail] = field(default_factory=list)
    cached_tokens: int = 0  # prompt tokens found in the prefix cache
    failure: Optional[BatonError] = None


@dataclass
class Answer:
    text: str
    finish_reason: Optional[str]
    prompt_tokens: int
    output_tokens: int
    logprobs: List[TokenDetail] = field(default_factory=list)
    cached_tokens: int = 0  # prompt tokens found in the prefix cache


@dataclass
class Model:
    name: str
    architecture: str
    parameters: int
    context_max: int
    vocabulary_size: int
    sequences_max: int
    created: int
    has_chat_template: bool
    phase: str
    reason: str
    chat_template_failure: str = ""  # why the model's template cannot be used, and where


@dataclass
class Tokenized:
    ids: List[int]
    pieces: List[bytes]
    context_max: int
