"""Prompt lookup over kinds of text: tokens/s with guesses beside the same requests without, on one server, in turns.

Called by run.py. The kinds differ in how much of the answer is already in the prompt, which prompt lookup depends on.
Answers end where the model ends them. Forced to continue, a small model repeats itself, and speculation would look better
than it is.
"""
import concurrent.futures
import http.client
import json
import time

import report
import servers
from settings import say

STREAMS = (1, 3)  # both below the default of model.speculative_disable_by_batch_size
GUESSES = (0, 3)  # num_speculative_tokens: 0, the baseline, and the default
MAX_TOKENS = 160
TIMEOUT_SECONDS = 300

PASSAGE = ("The harbour of Marrow Bay was built in 1871, when the railway reached the coast. Forty years later it shipped more slate than any other port of "
           "the county. The quarries closed in 1934, and the harbour fell asleep. Today its warehouses hold a museum, two boatyards and a market that "
           "opens on Saturdays. The lighthouse, which was moved twice, is still lit by volunteers every evening.")
FUNCTION = '''def mean_of_readings(readings, lowest, highest):
    total = 0.0
    count = 0
    for reading in readings:
        if reading < lowest or reading > highest:
            continue
        total += reading
        count += 1
    if count == 0:
        return None
    return total / count
'''
RECORDS = "\n".join(f"{name}, {role}, {town}, {year}" for name, role, town, year in [
    ("Ada Brook", "engineer", "Leeds", 1991), ("Omar Finch", "gardener", "Bath", 1987), ("Lena Holt", "pilot", "Cork", 1979),
    ("Piet Maas", "teacher", "Ghent", 2001), ("Rosa Quill", "printer", "Porto", 1968), ("Sven Tarn", "baker", "Turku", 1995)])

KINDS = {
    "chat": ["What is the capital of France, and what is it known for?", "Give me three tips for learning to swim.", "Why is the sky blue?",
             "Write a short poem about autumn.", "How do I make a good cup of tea?", "Tell me about the history of paper.",
             "What should I pack for a week in the mountains?", "Explain what a database index is."],
    "summary": [f"{PASSAGE}\n\n{question}" for question in
                ("Summarise this text.", "When was the harbour built, and why?", "What is in the warehouses today?", "Rewrite this text for a child.",
                 "List the facts in this text.", "What happened in 1934?", "Quote the sentence about the lighthouse.", "Translate the first sentence into French.")],
    "code": [f"{FUNCTION}\n{wish}" for wish in
             ("Rename `readings` to `values` in this function.", "Add a docstring to this function.", "Repeat this function.", "Add type hints to this function.",
              "Return 0.0 instead of None.", "Make the bounds exclusive.", "Count the readings left out as well, and return both.", "Rewrite this function in JavaScript.")],
    "copy": [f"{RECORDS}\n\n{wish}" for wish in
             ("Repeat these lines.", "Repeat these lines in the reverse order.", "Repeat these lines without the years.", "Write these lines as JSON.",
              "Write these lines as a Markdown table.", "Repeat the lines of people born after 1980.", "Number these lines.", "Repeat these lines, separated by semicolons.")],
}


def ask(server, prompt, guesses):
    """-> (text, completion tokens)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(
            {"model": "bench", "messages": [{"role": "user", "content": prompt}], "max_tokens": MAX_TOKENS, "temperature": 0,
             "num_speculative_tokens": guesses}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != 200:
            raise servers.ServerFailed(f"HTTP {answer.status}: {json.dumps(body)[:300]}")
        return body["choices"][0]["message"]["content"], body["usage"]["completion_tokens"]
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise servers.ServerFailed(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()


def run_kind(server, prompts, streams, guesses):
    """-> (texts, tokens/s)"""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        answers = list(pool.map(lambda prompt: ask(server, prompt, guesses), prompts))
    return [text for text, _ in answers], sum(tokens for _, tokens in answers) / (time.monotonic() - begin)


def rows(settings):
    _, one_stage = servers.core_devices(settings.threads)
    rates, differing = {}, 0
    try:
        with servers.Cluster(settings.cluster, settings.model, one_stage) as server:
            for prompts in KINDS.values():  # their beginnings are in the prefix cache from then on, for every turn alike
                run_kind(server, prompts, 8, 0)
            for round_index in range(settings.rounds):
                for kind, prompts in KINDS.items():
                    for streams in STREAMS:
                        say(f"speculation: round {round_index + 1} of {settings.rounds}, {kind}, {streams} streams")
                        texts = {}
                        with settings.watch(f"speculation {kind}", server.process.pid):
                            for guesses in sorted(GUESSES, reverse=round_index % 2 == 1):
                                texts[guesses], rate = run_kind(server, prompts, streams, guesses)
                                rates.setdefault((kind, streams, guesses), []).append(rate)
                        differing += sum(a != b for other in GUESSES[1:] for a, b in zip(texts[0], texts[other]))
    except servers.ServerFailed as error:
        return [report.missing("speculation", str(error))]
    made = [report.ratio_row(f"speculation.{guesses}/0.{kind}.{streams}.tok_s", rates[kind, streams, guesses], rates[kind, streams, 0])
            for kind in KINDS for streams in STREAMS for guesses in GUESSES[1:]]
    return made + [report.judged("speculation.texts_that_differ", differing, "texts", 1, lower_is_better=True, rounds=settings.rounds)]
