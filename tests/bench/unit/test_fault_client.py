"""Faults that the clients of ./check faults count, and the waits that they report: pytest tests/bench."""
import contextlib
import json
import mmap
import os
import pathlib
import sys
import threading
import types

import pytest
import websockets.sync.server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fault_client  # noqa: E402
import faults  # noqa: E402


def reader():
    return fault_client.Client(port=1, number=0, tokens=3, comes_back=True)


def say(client, index, word, now, finish=None):
    client._take(f"id: 7-00ab:{index}", now)
    client._take("data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": word} if word else {}, "finish_reason": finish}]}), now)


def test_an_answer_in_two_connections_is_whole():
    client = reader()
    say(client, 1, "a", 1.0)
    say(client, 2, " b", 1.5)
    say(client, 3, " c", 4.0)  # behind the second connection
    say(client, "3!", "", 4.0, "length")
    client._take("data: [DONE]", 4.0)
    assert (client.text, client.faults()) == ("a b c", [])
    assert client.gap_after(1.2) == pytest.approx(2.5)
    assert client.gap_after(4.5) is None  # it had ended
    assert client.gap_after(1.2, within=0.1) == pytest.approx(0.5)  # the longer one began later


def test_repeated_or_missing_ends_are_faults():
    client = reader()
    say(client, 2, "a", 1.0)
    say(client, 1, "a", 1.1)
    say(client, 3, "", 1.2, "length")
    assert client.faults() == ["went back from 2 to 1", "1 ends and 0 [DONE]"]
    client._take("data: " + json.dumps({"error": {"code": "pipeline_lost"}}), 1.3)
    assert client.faults() == ["error: pipeline_lost"]


def test_a_row_of_gaps_is_judged_by_its_bar_and_one_without_gaps_is_missing():
    tally = faults.Tally()
    tally.injections = 2
    assert not faults.gap("kill_stage", tally, 99, 0.15).ok
    tally.gaps = [0.01, 0.02, 0.2]
    row = faults.gap("kill_stage", tally, 50, 0.05)
    assert (row.row, row.value, row.ok, row.max) == ("kill_stage.gap.p50", 0.02, True, 0.2)
    assert not faults.gap("kill_stage", tally, 99, 0.15).ok


def test_texts_that_differ_and_streams_that_broke_are_two_rows():
    tally = faults.Tally()
    tally.injections, tally.compared, tally.different, tally.faults = 1, 16, 1, ["error: pipeline_lost"]
    wrong, same = faults.of_texts("kill_head", tally)
    assert (wrong.ok, wrong.reason, same.ok, same.value) == (False, "error: pipeline_lost", False, 15 / 16)


def fed(client, *messages):
    for number, message in enumerate(messages):
        client._take_message(message, float(number))
    return client


GRANTED = {"type": "granted", "id": "a", "ticket": 7, "resume": "7-00ab"}


def tokens(index, count, text):
    return {"type": "tokens", "id": "a", "index": index, "count": count, "text": text}


def test_a_websocket_answer_in_two_connections_is_whole():
    client = fed(fault_client.WebSocketClient(1, 0, 3, True), GRANTED, tokens(1, 1, "a"), tokens(2, 1, " b"), GRANTED, tokens(3, 1, " c"),
                  {"type": "done", "last": True, "finish_reason": "length"})
    assert (client.text, client.faults(), client.stamps) == ("a b c", [], [1.0, 2.0, 4.0])


@pytest.mark.parametrize("second", [tokens(3, 1, "c"), tokens(1, 1, "a")])
def test_tokens_that_are_lost_or_come_twice_over_a_websocket_are_wrong(second):
    client = fed(fault_client.WebSocketClient(1, 0, 3, True), GRANTED, tokens(1, 1, "a"), second, {"type": "done", "last": True})
    assert client.faults() == [f"1 tokens up to {second['index']} behind 1"]
    assert fed(fault_client.WebSocketClient(1, 0, 3, True), {"type": "error", "error": {"code": "quarantined"}}).faults() == ["HTTP: quarantined"]


def test_a_websocket_client_says_what_it_wants_and_goes_on_where_it_was():
    received = []

    def serve(door):
        received.append(json.loads(door.recv()))
        if len(received) == 1:
            for message in (GRANTED, tokens(1, 1, "a" * 200)):  # of a length in two bytes
                door.send(json.dumps(message))
            door.socket.close()  # as when its process dies
            return
        door.ping()
        for message in (GRANTED, tokens(2, 1, "b"), {"type": "done", "last": True, "finish_reason": "length"}):
            door.send(json.dumps(message))
        with contextlib.suppress(websockets.ConnectionClosed):
            door.recv()

    with websockets.sync.server.serve(serve, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = fault_client.WebSocketClient(server.socket.getsockname()[1], 0, 2, comes_back=True)
        client.run()
        server.shutdown()
    assert (client.text, client.faults(), client.returns) == ("a" * 200 + "b", [], 1)
    assert [h["type"] for h in received] == ["start", "resume"]
    assert (received[1]["resume"], received[1]["from"], received[0]["max_tokens"]) == ("7-00ab", 1, 2)


def test_an_sdk_clients_chunks_are_one_answer():
    client = fault_client.SdkClient("ipc:///nowhere", 0, 2, True)
    for now, (text, end) in enumerate([("a", None), ("", None), (" b", "length")]):
        client._take_chunk(types.SimpleNamespace(text=text, finish_reason=end), float(now))
    client.dones += 1
    assert (client.text, client.stamps, client.faults()) == ("a b", [0.0, 2.0], [])


def test_half_of_the_clients_use_other_apis_if_available(monkeypatch):
    monkeypatch.setattr(fault_client.Client, "start", lambda self: None)
    kinds = [type(c).__name__ for c in fault_client.started(1, 8, 3, True, door="ipc:///x")]
    assert kinds == ["Client", "WebSocketClient", "Client", "SdkClient"] * 2
    assert {type(c).__name__ for c in fault_client.started(1, 8, 3, True)} == {"Client"}


def test_a_processs_shared_memory_counts_once():
    before = fault_client.held_by(os.getpid())
    fd = os.memfd_create("kv")
    os.truncate(fd, 3 * mmap.PAGESIZE)
    again = os.dup(fd)
    after = fault_client.held_by(os.getpid())
    os.close(fd)
    os.close(again)
    assert {what: after[what] - before[what] for what in before} == {"files": 2, "threads": 0, "shared_files": 1, "shared_bytes": 3 * mmap.PAGESIZE}
    assert fault_client.held_by(os.getpid()) == before


def test_all_is_all(monkeypatch):
    def names(*words):
        monkeypatch.setattr(sys, "argv", ["faults", *words])
        return set(faults.arguments().names)

    assert names("--all") == set(faults.ROWS)
    assert names() == set(faults.ROWS) - {"soak"}
    assert names("--only", "soak") == {"soak"}
    with pytest.raises(SystemExit):
        names("--all", "--only", "soak")


def test_a_sleeper_is_woken_unless_it_was_ended_before():
    def child():
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.close(read)
        return pid, write

    pid, write = child()
    slept = faults.Sleeper(pid, 0.01)
    assert slept.lives() and slept.has_woken
    os.close(write)
    os.waitpid(pid, 0)
    pid, write = child()
    slept = faults.Sleeper(pid, 0.3)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert not slept.lives() and not slept.has_woken
    os.close(write)
