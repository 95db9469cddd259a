"""kill -9 of the gateway under an SDK: its streams go on, and whoever reads them is not told."""
import sys

from harness import ROOT
from test_faults import PROMPTS

sys.path.insert(0, str(ROOT / "sdk" / "python"))

from baton_client import Client  # noqa: E402


def text_of(chunks):
    """Their places must be without a gap."""
    text, at = "", 0
    for chunk in chunks:
        assert chunk.index == at + len(chunk.ids)
        text, at = text + chunk.text, chunk.index
    return text


def ask(client, prompt):
    return client.stream(messages=[{"role": "user", "content": prompt}], max_tokens=96, temperature=0)


def test_streams_of_the_python_sdk_go_on_when_the_gateway_is_killed(shared, fresh):
    with Client(shared.door) as client:
        undisturbed = [text_of(ask(client, p)) for p in PROMPTS[:4]]
    with Client(fresh.door) as client:
        streams = [ask(client, p) for p in PROMPTS[:4]]
        begun = [s.next() for s in streams]
        fresh.kill("gateway")
        late = ask(client, PROMPTS[0])  # waits for the door
        for first, stream, expected in zip(begun, streams, undisturbed):
            assert text_of([first, *stream]) == expected
        assert text_of(late) == undisturbed[0]
    assert fresh.metric("baton_requests_resumed_total") == 4
