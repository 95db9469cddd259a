"""Detects whether a text is marked: the counterpart of the server's watermark. See Kirchenbauer et al., A Watermark for Large Language
Models, ICML 2023, arXiv 2301.10226. After each token a share `gamma` of the vocabulary is green. Marked answers have more green tokens
than that.

The ids are those of the model that wrote the text.

    ids = [token["id"] for token in requests.post(url + "/tokenize", json={"inputs": text}).json()]
    print(detect(ids, gamma=0.5))
"""

import math
import struct
from dataclasses import dataclass
from typing import Sequence

KEY = 15485863  # the server's key, runtime/engine/watermark.hpp
MASK = (1 << 64) - 1
Z_MARKED = 4.0  # the authors' threshold: one in 31574 unmarked texts reaches it


def _mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def is_green(previous: int, token: int, gamma: float) -> bool:
    """Whether `token` is green after `previous`."""
    single = struct.unpack("<f", struct.pack("<f", gamma))[0]  # the server uses a 32-bit float
    return _mix(_mix(KEY + previous) ^ token) >> 32 < int(single * 2.0**32)


@dataclass(frozen=True)
class Score:
    tokens: int  # scored tokens
    green: int
    z: float  # standard deviations above the mean of unmarked texts
    p_value: float  # the probability of as many in an unmarked text

    @property
    def is_marked(self) -> bool:
        return self.z >= Z_MARKED


def detect(ids: Sequence[int], gamma: float = 0.5, *, counts_repeats: bool = False) -> Score:
    """Counts the green ones among the tokens behind the first. A pair of tokens that comes again says nothing new, and is left out unless
    `counts_repeats`. Raises ValueError for a gamma that is not between 0 and 1, and for fewer than two ids."""
    if not 0 < gamma < 1:
        raise ValueError("gamma must be between 0 and 1")
    pairs = list(zip(ids, ids[1:]))
    if not counts_repeats:
        pairs = list(dict.fromkeys(pairs))
    if not pairs:
        raise ValueError("at least two ids are needed")
    green = sum(is_green(previous, token, gamma) for previous, token in pairs)
    z = (green - gamma * len(pairs)) / math.sqrt(len(pairs) * gamma * (1 - gamma))
    return Score(len(pairs), green, z, math.erfc(z / math.sqrt(2)) / 2)
