"""The model answers every schema of tests/data/json_schemas once at temperature 1, and half of them again while a stage is killed in the
middle. Called by run.py. The PyPI package jsonschema judges the answers (schema_judge.py)."""
import json
import os
import signal
import subprocess
import time

import fault_client
import report
import servers
from settings import say

FILE = servers.ROOT / "tests" / "data" / "json_schemas" / "schemas.jsonl"
PYTHON = servers.ROOT / ".venv" / "bin" / "python"
MAX_TOKENS = 2000  # none needs as many: an answer that is cut is a fault
AT_ONCE = 25
QUICK_STEP = 8  # of the schemas, so many are left out by --quick
KILLS_PER_CLUSTER = 4  # of 5 restarts in 30 s that the pipeline's supervisor allows
TRIES = 3  # for those that had ended before the blow
JUDGE_SECONDS_MAX = 120


class Answer(fault_client.Client):
    """One answer under one schema."""

    def __init__(self, port, number, schema):
        super().__init__(port, number, 0, comes_back=False)
        self.number, self.schema, self.finish = number, schema["schema"], None
        asked = f"Give me an example of this as JSON: {schema['name'].replace('_', ' ').replace('.', ', ')}."
        self._body = json.dumps({"model": "bench", "stream": True, "max_tokens": MAX_TOKENS, "temperature": 1.0, "seed": number,
                                 "messages": [{"role": "user", "content": asked}],
                                 "response_format": {"type": "json_schema", "json_schema": {"name": "example", "schema": self.schema}}})

    def _take_event(self, event, now):
        super()._take_event(event, now)
        for choice in event.get("choices", ()):
            self.finish = choice["finish_reason"] or self.finish

    def faults(self):
        return super().faults() or ([f"it ended by {self.finish}"] if self.finish != "stop" else [])

    def was_in_the_middle(self, moment):
        return bool(self.stamps) and self.stamps[0] <= moment < self.stamps[-1]


def begin(server, schemas, numbers):
    answers = [Answer(server.port, number, schemas[number]) for number in numbers]
    for answer in answers:
        answer.start()
    return answers


def joined(answers):
    for answer in answers:
        answer.join(fault_client.SECONDS_MAX)
    return answers


def groups(numbers):
    return [numbers[i:i + AT_ONCE] for i in range(0, len(numbers), AT_ONCE)]


def kill_under(server, answers, shard):
    """-> the time at which each of them has begun."""
    pid = server.shard_pids()[shard]
    for answer in answers:
        answer.begun.wait(fault_client.SECONDS_MAX)
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()


def killed_answers(settings, schemas, numbers):
    """For each schema an answer during which a stage was killed. If TRIES answers ended before the kill, the last one."""
    two_stages, _ = servers.core_devices(settings.threads)
    found, kills, left = {}, 0, numbers
    for _ in range(TRIES):
        waiting = groups([n for n in left])
        while waiting:
            with servers.Cluster(settings.cluster, settings.model, two_stages) as server:
                for group in waiting[:KILLS_PER_CLUSTER]:
                    answers = begin(server, schemas, group)
                    moment = kill_under(server, answers, f"shard-{kills % 2}")
                    kills += 1
                    found.update({a.number: (a, a.was_in_the_middle(moment)) for a in joined(answers)})
                    server.wait_ready_again()
            waiting = waiting[KILLS_PER_CLUSTER:]
        left = [n for n in numbers if not found[n][1]]
        if not left:
            break
    return found, kills


def wrong_ones(answers):
    """The faults of each wrong answer: its own faults, then jsonschema's."""
    lines = "".join(json.dumps({"schema": a.schema, "text": a.text}) + "\n" for a in answers)
    done = subprocess.run([PYTHON, servers.ROOT / "tests" / "bench" / "schema_judge.py"], input=lines, capture_output=True, text=True,
                          timeout=JUDGE_SECONDS_MAX, check=True)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    return {a.number: "; ".join(a.faults()) or wrong for a, wrong in zip(answers, verdicts, strict=True) if a.faults() or wrong}


def valid_row(name, answers, schemas):
    wrong = wrong_ones(answers)
    row = report.judged(name, len(answers) - len(wrong), "answers", len(answers))
    row.reason = "; ".join(f"{schemas[n]['name']}: {why}" for n, why in sorted(wrong.items()))[:300]
    return row


def rows(settings):
    schemas = [json.loads(line) for line in FILE.read_text().splitlines()]
    numbers = list(range(0, len(schemas), QUICK_STEP if settings.is_quick else 1))
    say(f"schemas: {len(numbers)} answers")
    two_stages, _ = servers.core_devices(settings.threads)
    with servers.Cluster(settings.cluster, settings.model, two_stages) as server:
        undisturbed = {a.number: a for group in groups(numbers) for a in joined(begin(server, schemas, group))}
    # The half with the longest answers: there is time to kill a stage in their middle.
    longest = sorted(numbers, key=lambda n: len(undisturbed[n].stamps), reverse=True)[:len(numbers) // 2]
    say(f"schemas: {len(longest)} of them again, under kill -9 of a stage")
    killed, kills = killed_answers(settings, schemas, sorted(longest))
    again = [answer for answer, _ in killed.values()]
    same = sum(a.text == undisturbed[a.number].text for a in again) / len(again)
    return [valid_row("schemas.valid", list(undisturbed.values()), schemas), valid_row("schemas.valid_after_kill", again, schemas),
            report.judged("schemas.killed_in_the_middle", sum(is_hit for _, is_hit in killed.values()), "answers", len(again)),
            report.judged("schemas.same_text_after_kill", same, "share", 1),
            report.judged("schemas.kills", kills, "kills"),
            report.judged("schemas.pieces", sum(len(a.stamps) for a in undisturbed.values()), "pieces")]
