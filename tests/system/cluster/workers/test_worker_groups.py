"""Workers of several processes: what their ranks share, which rank answers, and that they start and end together."""
import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import time

import pytest
from harness import ROOT, running
from test_model_store import WithStore
from test_workers import HANDLERS, WithWorkers, table, wait_for

sys.path.insert(0, str(ROOT / "sdk" / "python" / "tests"))

from torch_python import environment, python_with_torch  # noqa: E402

RANKS = HANDLERS / "ranks.py"
TORCH_RANKS = HANDLERS / "torch_ranks.py"
PIPPY = "pippy: {chunks: 2, input_names: [x], model_type: small, rpc_timeout: 60}\nhandler: {model_path: model}\n"


def group(name, parallel_type, parallel_level, *words, **settings):
    return table(name, RANKS, *words, module="baton_worker.torchserve", parallel_type=parallel_type, parallel_level=parallel_level, **settings)


TABLES = (group("tp", "tp", 4, omp_num_threads=3) + group("both", "pptp", 2) + group("pp", "pp", 2) + group("pp4", "pp", 4)
          + group("strict", "tp", 2, response_timeout=2) + group("custom", "custom", 2, count=2, device_ids=[4, 5, 6, 7]))
MODELS = ("tp", "both", "pp", "pp4", "strict", "custom")


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_ended(pids):
    wait_for(lambda: not any(map(is_alive, pids)))


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")  # GPUs that no handler here opens
        with running(WithWorkers, workers=TABLES) as c:
            for model in MODELS:
                c.wait_workers(model)
            yield c


def ranks_of(cluster, model):
    return cluster.reply_of(model, number=1)["ranks"]


def test_ranks_have_the_environment_of_torchrun(cluster):
    ranks = ranks_of(cluster, "tp")
    reply = [r["environment"] for r in ranks]
    assert [e["RANK"] for e in reply] == [e["LOCAL_RANK"] for e in reply] == ["0", "1", "2", "3"]
    for e in reply:
        assert (e["WORLD_SIZE"], e["LOCAL_WORLD_SIZE"], e["GROUP_RANK"], e["MASTER_ADDR"]) == ("4", "4", "0", "127.0.0.1")
        assert (e["OMP_NUM_THREADS"], e["TORCHELASTIC_RUN_ID"]) == ("3", "worker-tp-0")
    assert len({e["MASTER_PORT"] for e in reply}) == 1 and int(reply[0]["MASTER_PORT"]) > 0
    assert len({r["pid"] for r in ranks}) == 4
    assert {r["parent"] for r in ranks} == {p["pid"] for p in cluster.workers_of("tp").values()}
    assert {e["CUDA_VISIBLE_DEVICES"] for e in reply} == {"0,1,2,3"} and [e["BATON_WORKER_GPU_ID"] for e in reply] == ["0", "1", "2", "3"]
    other = ranks_of(cluster, "pp")[0]["environment"]
    assert other["OMP_NUM_THREADS"] == "1" and other["MASTER_PORT"] != reply[0]["MASTER_PORT"]


@pytest.mark.parametrize("model, ranks", [("tp", 4), ("both", 2)])
def test_all_ranks_are_asked_and_rank_0_answers(cluster, model, ranks):
    before = ranks_of(cluster, model)[0]["asked"]
    reply = cluster.reply_of(model, number=7)
    assert reply["sum"] == 7 * sum(range(1, ranks + 1))
    assert [r["asked"] for r in reply["ranks"]] == [before + 1] * ranks


@pytest.mark.parametrize("model, ranks", [("pp", 2), ("pp4", 4)])
def test_a_pipeline_asks_rank_0_alone(cluster, model, ranks):
    before = ranks_of(cluster, model)[0]["asked"]
    reply = cluster.reply_of(model, number=7)
    assert reply["sum"] == 7 * sum(range(1, ranks + 1))
    assert [r["asked"] for r in reply["ranks"]] == [before + 1] + [0] * (ranks - 1)


def test_custom_is_one_process_that_has_its_devices(cluster):
    """As TorchServe deals them out."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        reply = list(pool.map(lambda _: ranks_of(cluster, "custom"), range(40)))
    assert all(len(ranks) == 1 and ranks[0]["environment"]["RANK"] is None for ranks in reply)
    assert {ranks[0]["pid"] for ranks in reply} == {p["pid"] for p in cluster.workers_of("custom").values()}
    assert {ranks[0]["environment"]["CUDA_VISIBLE_DEVICES"] for ranks in reply} == {"4,5", "6,7"}


def test_a_large_batch_reaches_all_ranks(cluster):
    assert cluster.reply_of("tp", number=1, filling="x" * (3 << 20))["sum"] == 10


@pytest.mark.parametrize("model, ranks, killed", [("tp", 4, 0), ("tp", 4, 2), ("pp", 2, 0), ("pp", 2, 1), ("pp4", 4, 3)])
def test_a_rank_killed_in_the_middle_of_a_stream_ends_the_group(cluster, tmp_path, model, ranks, killed):
    pids = [r["pid"] for r in ranks_of(cluster, model)]
    worker = cluster.wait_workers(model)
    connection, answer = cluster.open_stream(model, pieces=4, pause_at=2, until=str(tmp_path / "go"))
    assert answer.status == 200
    whole = sum(range(1, ranks + 1))
    assert answer.read(len(f"0 {whole} ")) == f"0 {whole} ".encode()
    os.kill(pids[killed], signal.SIGKILL)
    with pytest.raises(Exception) as broken:
        answer.read()
    assert "IncompleteRead" in repr(broken.value), broken.value
    connection.close()
    cluster.wait_workers(model, *worker)
    wait_ended([*pids, *worker])
    after = cluster.reply_of(model, number=3)
    assert after["sum"] == 3 * whole
    assert not {r["pid"] for r in after["ranks"]} & set(pids)


@pytest.mark.parametrize("model, rank", [("tp", 0), ("tp", 3)])
def test_a_request_without_any_answer_is_repeated_by_the_next_group(cluster, tmp_path, model, rank):
    before = {r["pid"] for r in ranks_of(cluster, model)}
    reply = cluster.reply_of(model, number=5, dies=rank, file=str(tmp_path / "died"))
    assert reply["sum"] == 50 and not {r["pid"] for r in reply["ranks"]} & before


def test_a_rank_that_hangs_ends_the_group(cluster):
    pids = [r["pid"] for r in ranks_of(cluster, "strict")]
    worker = cluster.wait_workers("strict")
    assert cluster.refused("strict", number=1, hangs=1)[:2] == (504, "deadline_exceeded")
    cluster.wait_workers("strict", *worker)
    wait_ended([*pids, *worker])
    assert cluster.reply_of("strict", number=1)["sum"] == 3


def test_no_rank_survives_its_launcher(cluster):
    pids = [r["pid"] for r in ranks_of(cluster, "both")]
    worker = cluster.wait_workers("both")
    os.kill(worker[0], signal.SIGKILL)
    cluster.wait_workers("both", *worker)
    wait_ended(pids)
    assert cluster.reply_of("both", number=1)["sum"] == 3


def test_ranks_stay_in_step_when_a_client_leaves(cluster, tmp_path):
    ended = tmp_path / "ended"
    connection, answer = cluster.open_stream("tp", pieces=50, pause_at=2, until=str(tmp_path / "go"), ended=str(ended))
    assert answer.read(5) == b"0 10 "
    connection.sock and connection.sock.close()
    answer.close()
    connection.close()
    (tmp_path / "go").touch()
    wait_for(ended.exists)
    assert cluster.reply_of("tp", number=2)["sum"] == 20


def test_a_group_survives_its_root(cluster):
    before = {r["pid"] for r in ranks_of(cluster, "tp")}
    os.kill(cluster.process.pid, signal.SIGKILL)
    cluster.process.wait()
    cluster.start()
    cluster.wait_workers("tp")
    assert {r["pid"] for r in ranks_of(cluster, "tp")} == before


def test_a_rank_that_can_never_serve_gives_the_group_up(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("handler: {unusable: 1}\n")
    tables = group("broken", "tp", 2, "--model-yaml-config", str(config))
    with running(WithWorkers, workers=tables) as c:
        found = wait_for(lambda: [p for p in c.workers_of("broken").values() if p["phase"] == "failed"], 30)
        assert "rank 1 has no weights" in found[0]["reason"]


def test_an_orderly_end_leaves_no_rank():
    with running(WithWorkers, workers=group("tp", "tp", 4)) as c:
        c.wait_workers("tp")
        pids = [r["pid"] for r in ranks_of(c, "tp")]
        begun = time.monotonic()
        c.stop()
        assert time.monotonic() - begun < 20
        assert not any(map(is_alive, pids))


CONFIG = """
minWorkers: 1
maxWorkers: 1
maxBatchDelay: 200
responseTimeout: 300
parallelType: "{}"
deviceType: "cpu"
torchrun:
    nproc-per-node: {}
    OMP_NUMBER_THREADS: 2
"""


def test_archives_with_torchrun_are_served(tmp_path):
    handler = RANKS.read_text()
    archives = {f"{kind}{n}.mar": dict(model=f"{kind}{n}", config=CONFIG.format(kind, n), extra={"handler.py": handler}.items())
                for kind, n in (("pp", 2), ("tp", 4))}
    with running(WithStore, archives=archives, section='load_models = ["all"]\n') as c:
        for name, ranks in (("pp2", 2), ("tp4", 4)):
            def asked(name=name):
                status, reply = c.ask("POST", f"/predictions/{name}", b'{"number": 2}', at=c.inference, headers={"Content-Type": "application/json"})
                return reply if status == 200 else None
            reply = wait_for(asked, 30)
            assert reply["sum"] == 2 * sum(range(1, ranks + 1))
            assert reply["ranks"][0]["environment"]["OMP_NUM_THREADS"] == "2"
            assert reply["ranks"][0]["environment"]["WORLD_SIZE"] == str(ranks)


@pytest.fixture(scope="module")
def torch_cluster(tmp_path_factory):
    python, why = python_with_torch("sympy")  # of pipelining
    if python is None:
        pytest.skip(why)
    config = tmp_path_factory.mktemp("pippy") / "model-config.yaml"
    config.write_text(PIPPY)
    tables = ""
    for name, kind, ranks, words in (("tp2", "tp", 2, ()), ("pp2", "pp", 2, ("--model-yaml-config", config)),
                                     ("pp4", "pp", 4, ("--model-yaml-config", config))):
        command = ["env", f"PYTHONPATH={environment()['PYTHONPATH']}", python, "-m", "baton_worker.torchserve", str(TORCH_RANKS), *map(str, words)]
        tables += (f'[[workers]]\nname = "{name}"\ncommand = {json.dumps(command)}\nparallel_type = "{kind}"\n'
                   f"parallel_level = {ranks}\nbatch_size = 4\nmax_batch_delay = 0\n")
    with running(WithWorkers, workers=tables) as c:
        for model in ("tp2", "pp2", "pp4"):
            c.wait_workers(model, seconds=120)
        yield c


@pytest.mark.parametrize("model, ranks", [("tp2", 2), ("pp2", 2), ("pp4", 4)])
def test_ranks_of_a_torch_model_meet_by_gloo(torch_cluster, model, ranks):
    first = torch_cluster.reply_of(model, row=[1.0, 2.0, 3.0, 4.0])
    assert first["is_right"] and len(first["pids"]) == ranks
    assert torch_cluster.reply_of(model, row=[0.0, 0.0, 1.0, 0.0])["is_right"]


@pytest.mark.parametrize("model, killed", [("tp2", 0), ("tp2", 1), ("pp2", 1), ("pp4", 2)])
def test_a_torch_rank_killed_in_the_middle_of_a_stream_ends_the_group(torch_cluster, tmp_path, model, killed):
    asked = {"row": [1.0, 2.0, 3.0, 4.0]}
    pids = torch_cluster.reply_of(model, **asked)["pids"]
    worker = torch_cluster.wait_workers(model)
    connection, answer = torch_cluster.open_stream(model, pieces=4, until=str(tmp_path / "go"), **asked)
    assert answer.status == 200 and answer.read(4) == b"0 1 "
    os.kill(pids[killed], signal.SIGKILL)
    with pytest.raises(Exception) as broken:
        answer.read()
    assert "IncompleteRead" in repr(broken.value), broken.value
    connection.close()
    torch_cluster.wait_workers(model, *worker, seconds=120)
    wait_ended([*pids, *worker])
    after = torch_cluster.reply_of(model, **asked)
    assert after["is_right"] and not set(after["pids"]) & set(pids)
