"""kill -9 of the gateway under both SDKs: their streams continue, and their readers notice nothing."""
import os
import signal
import subprocess
import sys

from harness import BUILD, ROOT
from test_faults import PROMPTS

sys.path.insert(0, str(ROOT / "sdk" / "python"))

from baton_client import Client  # noqa: E402


def text_of(chunks):
    """Their positions must have no gap."""
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
    gateway = fresh.pid("gateway")  # known before: they are short
    with Client(fresh.door) as client:
        streams = [ask(client, p) for p in PROMPTS[:4]]
        begun = [s.next() for s in streams]
        os.kill(gateway, signal.SIGKILL)
        late = ask(client, PROMPTS[0])  # waits for the door
        for first, stream, expected in zip(begun, streams, undisturbed):
            assert text_of([first, *stream]) == expected
        assert text_of(late) == undisturbed[0]
    assert fresh.metric("baton_requests_resumed_total") == 4


def test_a_stream_of_the_cpp_sdk_goes_on_when_the_gateway_is_killed(shared, fresh):
    def statuses_of(cluster):
        return subprocess.Popen([BUILD / "sdk/cpp/baton_stream", cluster.door, PROMPTS[0], "96"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, bufsize=0)  # what is read here must not hide from communicate()

    undisturbed, _ = statuses_of(shared).communicate(timeout=120)
    gateway = fresh.pid("gateway")
    stream = statuses_of(fresh)
    begun = stream.stdout.read(20)
    os.kill(gateway, signal.SIGKILL)
    rest, complaints = stream.communicate(timeout=120)
    assert stream.returncode == 0, complaints
    assert begun + rest == undisturbed
    assert fresh.metric("baton_requests_resumed_total") == 1
