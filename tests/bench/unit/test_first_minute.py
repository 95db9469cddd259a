"""How `./check first_minute` measures and judges: pytest tests/bench."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench"))
import report  # noqa: E402
import servers  # noqa: E402
from sections import download, first_token, installed, switch  # noqa: E402
from settings import Settings  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()


# Takes llama-server's arguments, is busy for its first two requests, and answers with the prompt, one word per token.
PEER = """#!{python}
import http.server, json, sys
refused = []
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if len(refused) < 2:
            refused.append(1)
            return self.send_error(503)
        self.send_response(200)
        self.end_headers()
        words = (asked["messages"][0]["content"] + " ?" * 9).split()[:asked["max_tokens"]]
        events = [dict(choices=[dict(delta=dict(content=word))]) for word in words]
        events += [dict(choices=[dict(delta={{}}, finish_reason="length")]), dict(choices=[], usage=dict(prompt_tokens=1, completion_tokens=len(words)))]
        for event in events: self.wfile.write(f"data: {{json.dumps(event)}}\\n\\n".encode())
        self.wfile.write(b"data: [DONE]\\n\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def by_name(rows):
    return {row.row: row for row in rows}


def test_the_clock_stops_at_the_first_byte_and_not_at_the_end():
    script = "import time; print('a', flush=True); time.sleep(1.5); print('b')"
    with first_token.own_place() as environment:
        assert 0 < first_token.seconds_to_first_byte([sys.executable, "-c", script], environment) < 1.5


@pytest.mark.parametrize("script, why", [("import sys; sys.exit('no model')", "status 1 and 0 bytes: no model"), ("", "status 0 and 0 bytes"),
                                         ("print('half'); import sys; sys.exit(3)", "status 3 and 4 bytes")])
def test_a_command_without_an_answer_gives_no_time(script, why):
    with first_token.own_place() as environment, pytest.raises(servers.ServerFailed, match=why):
        first_token.seconds_to_first_byte([sys.executable, "-c", script], environment)


def test_a_start_is_judged_by_its_seconds_and_beside_the_peer():
    rows = by_name(first_token.judge("small", {"baton": [0.5, 0.7], "llama": [0.5, 0.5]}, {}, 0.6))
    assert (rows["run.small.first_token"].value, rows["run.small.first_token"].ok) == (0.6, False)
    assert (rows["run.small.baton/llama"].value, rows["run.small.baton/llama"].ok) == (1.2, False)
    alone = by_name(first_token.judge("small", {"baton": [0.5], "llama": []}, {"llama": "left out"}, 0.6))
    assert alone["run.small.first_token"].ok and not alone["run.small.baton/llama"].ok and "left out" in report.verdict(alone["run.small.baton/llama"])


def test_the_peer_is_asked_until_it_answers(tmp_path):
    program = tmp_path / "llama-server"
    program.write_text(PEER.format(python=sys.executable))
    program.chmod(0o755)
    settings = Settings(model=None, build=None, threads=2, is_quick=True, peer_bin=tmp_path)
    assert 0 < first_token.of_llama(settings, tmp_path / "a.gguf") < servers.READY_SECONDS_MAX
    program.write_text("#!/bin/sh\necho no such model\nexit 1\n")
    with pytest.raises(servers.ServerFailed, match="no such model"):
        first_token.of_llama(settings, tmp_path / "a.gguf")


def test_what_was_not_asked_for_is_no_failure_and_not_ok_either():
    settings = Settings(model=None, build=None, threads=2, is_quick=True)
    settings.model_large = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(switch, "rows_of_model", lambda *_: [])
        row, = switch.rows(settings)
    assert row.ok and report.verdict(row) == "skipped: no --model-large FILE"
    assert json.loads(row.as_json())["reason"] == "no --model-large FILE"


def test_a_download_is_judged_beside_curl_alone():
    rows = by_name(download.judge({"pull": [700.0, 900.0], "curl": [1000.0, 1000.0], "curl_and_sha256": [500.0, 500.0]}))
    assert (rows["download.pull/curl"].value, rows["download.pull/curl"].ok) == (0.8, True)
    assert (rows["download.pull/curl_and_sha256"].value, rows["download.pull/curl_and_sha256"].bar) == (1.6, None)


def test_a_resumption_is_judged_by_its_worst_round():
    rows = by_name(download.judge_resumed([(1.0, 5.0), (17.0, 30.0), (2.0, 6.0)]))
    assert (rows["resume.lost"].value, rows["resume.lost"].ok, rows["resume.sent_twice"].value) == (17.0, False, 6.0)


def test_loads_of_all_models_are_counted():
    text = '# TYPE baton_model_loads_total counter\nbaton_model_loads_total{model_name="one"} 3\nbaton_model_loads_total{model_name="two"} 2\nbaton_model_loaded 1\n'
    assert switch.loads_in(text) == 5 and switch.loads_in("") == 0


def test_the_newest_package_is_taken(tmp_path):
    for age, name in enumerate(("baton_0.2.0_amd64.deb", "baton_0.1.0_amd64.deb", "other_1_amd64.deb")):
        (tmp_path / name).write_bytes(b"x" * 1000)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    settings = Settings(model=None, build=None, threads=2, is_quick=True)
    settings.packages, settings.scratch = tmp_path, tmp_path / "none"
    assert installed.package(settings, "deb").name == "baton_0.2.0_amd64.deb"


@pytest.mark.parametrize("words, why", [(["--only", "nothing"], "no part nothing"), (["--write", "--quick"], "--write wants all of it"),
                                        (["--write"], "--write wants all of it"), (["--model-large", "none.gguf"], "none.gguf: no such file")])
def test_words_that_make_no_sense_are_refused(words, why):
    done = subprocess.run([sys.executable, ROOT / "tests/bench/first_minute.py", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and why in done.stderr, done.stderr


def test_every_part_measures():
    """With the build that is tested: its times prove nothing. The peer, and packages, are left out."""
    if not (BUILD / "cluster/cluster").exists():
        pytest.skip(f"{BUILD}/cluster/cluster is not built")
    done = subprocess.run([sys.executable, ROOT / "tests/bench/first_minute.py", "--quick", "--rounds", "2", "--json", "--no-peer", "--build-dir", BUILD,
                           "--only", "run,switch,download,resume"], capture_output=True, text=True, timeout=600, check=False)
    rows = {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}
    for name in ("run.small.first_token", "switch.small", "download.pull", "download.curl", "download.pull/curl", "resume.lost"):
        assert rows[name]["value"] is not None, (rows[name], done.stderr)
    assert rows["run.small.baton/llama"]["reason"] == "llama.cpp: left out by --no-peer"
    assert all(rows[name]["ok"] and rows[name]["reason"] == "no --model-large FILE" for name in ("run.large.first_token", "switch.large"))
