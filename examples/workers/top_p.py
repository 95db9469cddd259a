"""A worker with its own generation loop: draws the sequences of a batch together, by top-p, and streams them token by token.

The model is the simplest one possible: which character follows which two in a verse. Put your own in its place.

    [[workers]]
    name = "rhyme"
    command = ["python3", "-m", "baton_worker", "examples/workers/top_p.py"]
    batch_size = 8

    curl -N -H 'Content-Type: application/json' -d '{"prompt": "the ", "max_tokens": 40, "top_p": 0.8, "seed": 1}' \
        http://127.0.0.1:8000/v1/workers/rhyme
"""

import random
from collections import Counter, defaultdict

from baton_worker import Handler, RequestError

VERSE = '''the wheel that turns the water turns the stone the stone that grinds the grain was once alone
the hand that holds the grain has held the wheel and what the wheel has held the hand can feel '''
ORDER = 2


class Sequence:
    """One request's text so far, and its sampling parameters."""

    def __init__(self, request):
        asked = request.json()
        self.request = request
        self.text = asked.get("prompt", "")
        self.left = int(asked.get("max_tokens", 32))
        self.top_p = float(asked.get("top_p", 1.0))
        self.random = random.Random(asked.get("seed"))
        if not 0 < self.top_p <= 1:
            raise RequestError(f"top_p must be in (0, 1], not {self.top_p}", 422)

    @property
    def is_over(self):
        return self.left == 0 or self.request.is_cancelled


class TopP(Handler):
    def initialize(self, context):
        super().initialize(context)
        self.model = defaultdict(Counter)
        for at in range(len(VERSE) - ORDER):
            self.model[VERSE[at : at + ORDER]][VERSE[at + ORDER]] += 1
        self.anything = Counter(VERSE)

    def step(self, sequences):
        """The distribution of the next token for each sequence. The only place to call a real model, for all of them at once."""
        return [self.model.get(s.text[-ORDER:], self.anything) for s in sequences]

    def sample(self, counts, sequence):
        """Draws from the smallest set of the most likely tokens that has top_p of the probability (arXiv 1904.09751)."""
        ranked = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))
        bound, total, kept = sequence.top_p * sum(counts.values()), 0, 0
        while kept < len(ranked) and total < bound:
            total += ranked[kept][1]
            kept += 1
        tokens, weights = zip(*ranked[:kept])
        return sequence.random.choices(tokens, weights)[0]

    def handle(self, requests):
        sequences = []
        for request in requests:
            try:
                sequences.append(Sequence(request))
            except (ValueError, TypeError, AttributeError) as wrong:
                sequences.append(RequestError(f"the body is no JSON object of numbers: {wrong}", 422))
            except RequestError as wrong:
                sequences.append(wrong)
        yield [s if isinstance(s, RequestError) else None for s in sequences]
        running = [s for s in sequences if isinstance(s, Sequence)]
        while running := [s for s in running if not s.is_over]:
            drawn = {s: self.sample(counts, s) for s, counts in zip(running, self.step(running))}
            for s, token in drawn.items():
                s.text, s.left = s.text + token, s.left - 1
            yield [drawn.get(s) if isinstance(s, Sequence) else None for s in sequences]
