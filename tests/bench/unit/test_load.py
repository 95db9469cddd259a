"""The load client must notice each fault of a stream, otherwise its figures and the kill test mean nothing: pytest tests/bench."""
import dataclasses
import json
import pathlib
import socket
import socketserver
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import load as loads  # noqa: E402
import report  # noqa: E402
from sections import kill  # noqa: E402


def text(index, word="a ", ticket=7):
    return f"id: {ticket}:{index}\ndata: " + json.dumps({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}) + "\n\n"


def end(index, tokens):
    finish = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}
    return f"id: 7:{index}\ndata: {json.dumps(finish)}\n\ndata: {json.dumps(usage)}\n\n"


DONE = "data: [DONE]\n\n"
GOOD = [text(1), text(2), text(3), end(3, 3), DONE]


def answer(pieces, is_chunked=True, status="200 OK", streams=1, requests=1):
    """The client's result for a server that sends these pieces."""
    class Server(socketserver.StreamRequestHandler):
        def handle(self):
            length = 0
            while (line := self.rfile.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            self.wfile.write(f"HTTP/1.1 {status}\r\n".encode() + (b"Transfer-Encoding: chunked\r\n\r\n" if is_chunked else b"\r\n"))
            for data in map(str.encode, pieces):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data)
            self.wfile.write(b"0\r\n\r\n" if is_chunked else b"")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        load = loads.Load(f"http://127.0.0.1:{server.server_address[1]}", streams, requests, max_tokens=3, warmup=0, timeout=5)
        answers = loads.drive(load)
        server.shutdown()
    return load, *answers


def test_streams_that_end_together_are_followed_by_others():
    _, streams, _ = answer(GOOD, streams=8, requests=40)
    assert [s.number for s in streams] == list(range(40))
    assert not any(loads.faults_of(s, 3) for s in streams)


def test_a_warm_up_is_asked_once_and_not_among_the_streams():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        load = loads.Load(f"http://127.0.0.1:{silent.getsockname()[1]}", streams=1, requests=1, warmup=1, timeout=0.05)
        streams, _ = loads.drive(load)
    assert [s.number for s in streams] == [-1] and "no end" in streams[0].error


def test_a_server_that_says_nothing_is_left_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        load = loads.Load(f"http://127.0.0.1:{silent.getsockname()[1]}", streams=2, requests=3, warmup=0, timeout=0.05)
        streams, _ = loads.drive(load)
    assert [loads.faults_of(s, 3) for s in streams] == [["no end within 0.05 s"]] * 3


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_whole_answer_has_no_faults_and_exact_counts(is_chunked):
    load, streams, wall = answer(GOOD, is_chunked)
    assert loads.faults_of(streams[0], 3) == []
    assert streams[0].text == "a a a " and len(streams[0].stamps) == 3
    figures = loads.summary(load, streams, wall, 0.0)
    assert figures["good"] == 1 and figures["completion_tokens"] == 3 and figures["prompt_tokens"] == 5


def test_lines_may_be_cut_anywhere_between_http_chunks():
    whole = "".join(GOOD)
    _, streams, _ = answer([whole[i:i + 7] for i in range(0, len(whole), 7)])
    assert loads.faults_of(streams[0], 3) == [] and streams[0].text == "a a a "


@pytest.mark.parametrize("pieces, fault", [
    ([text(1), text(2), text(3), DONE], "0 finish reasons"),
    ([text(1), text(2), text(3), end(3, 3), end(3, 3), DONE], "2 finish reasons"),
    ([text(1), text(2), text(3), end(3, 3)], "0 [DONE] events"),
    ([*GOOD, DONE], "2 [DONE] events"),
    ([*GOOD, text(4)], "1 events after [DONE]"),
    ([text(1), text(2), text(2), end(3, 3), DONE], "event ids repeat or go back"),
    ([text(1), text(2), text(3, ticket=8), end(3, 3), DONE], "event ids of several tickets, or missing"),
    ([text(1), text(2), text(9), end(3, 3), DONE], "event id 9 beyond the 3 tokens of usage"),
    ([text(1), text(2), end(2, 2), DONE], "2 tokens for 3 asked with ignore_eos"),
    (['data: {"error": {"code": "internal"}}\n\n', DONE], '{"code": "internal"}'),
])
def test_each_way_a_stream_can_be_wrong_is_named(pieces, fault):
    _, streams, _ = answer(pieces)
    assert fault in loads.faults_of(streams[0], 3)


def test_a_refusal_and_a_dead_server_are_faults_not_exceptions():
    _, refused, _ = answer(["no ticket"], status="503 Service Unavailable")
    assert loads.faults_of(refused[0], 3)[0].startswith("HTTP 503")
    dead = loads.drive(loads.Load("http://127.0.0.1:9", 1, 1, timeout=5, warmup=0))[0][0]
    assert loads.faults_of(dead, 3)


def test_the_same_seed_asks_the_same_and_another_something_else():
    load = loads.Load("http://x", 1, 1)
    assert loads.prompt_of(3, load) == loads.prompt_of(3, load) != loads.prompt_of(4, load)
    exact = dataclasses.replace(load, prompt_characters=128)
    assert len(loads.prompt_of(3, exact)) == 128 and loads.prompt_of(3, exact) != loads.prompt_of(4, exact)


@pytest.mark.parametrize("stamps, killed, gap", [
    ([1.0, 2.0, 5.0, 5.5], 2.5, 3.0),  # the wait that spans the kill
    ([1.0, 2.0, 2.1, 6.0], 2.05, 3.9),  # a longer one after it
    ([1.0, 9.0, 9.1], 9.05, pytest.approx(0.1)),  # a long wait before the kill does not count
    ([4.0, 4.1], 3.0, 1.0),  # no text before the kill: from the kill on
    ([1.0, 2.0], 3.0, None),  # had ended
])
def test_the_gap_of_a_stream_is_its_longest_wait_that_ends_after_the_kill(stamps, killed, gap):
    assert kill.gap_after(loads.Stream(0, begun=0.5, stamps=stamps), killed) == gap


def test_a_ratio_is_of_medians_and_its_extremes_are_of_rounds():
    row = report.ratio_row("r", [10.0, 20.0, None, 30.0], [10.0, 40.0, 5.0, 10.0], bar=2.5)
    assert (row.value, row.min, row.max, row.rounds, row.ok) == (2.0, 0.5, 3.0, 3, False)
    assert report.ratio_row("r", [None], [1.0], 0.7).ok is False
    assert report.median_row("m", [1.0, 3.0, 2.0], "s", bar=2.0, lower_is_better=True).ok is False


@pytest.mark.parametrize("fields, name, bar, lower_is_better", [
    ({"row": "round trip 64 B, baton / raw", "value": 1.5, "bar": 2.0, "ok": True}, "bus.round_trip_64_B_baton/raw", 2.0, True),
    ({"row": "x", "value": 2.5, "bar": 2.0, "ok": False}, "bus.x", 2.0, True),
    ({"row": "x", "value": 2.5, "bar": 2.0, "ok": True}, "bus.x", 2.0, False),
    ({"row": "bus.x", "value": 2.5, "bar": 0.0, "ok": True}, "bus.x", None, False),
])
def test_a_row_of_a_tool_keeps_its_verdict(fields, name, bar, lower_is_better):
    row = report.row_from_tool(fields, "bus")
    assert (row.row, row.bar, row.ok, row.lower_is_better) == (name, bar, fields["ok"], lower_is_better)


def test_results_replace_what_is_between_the_marks_and_nothing_else(tmp_path):
    document = tmp_path / "b.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_results(document, "today", [report.judged("served.llama.8.tok_s", 150.0, "tokens/s"), report.judged("x", 1.0, "x", 0.7)])
    written = document.read_text()
    assert written.startswith("before\n") and written.endswith(f"{report.END}\nafter\n")
    assert "old" not in written and "| llama | 8 | 150" in written and "| x | 1 | x |" in written
    document.write_text("no marks")
    with pytest.raises(ValueError):
        report.write_results(document, "today", [])
