"""Every command line of the documents is valid: a build makes its program or the tree has it, and it has the subcommand and every flag."""
import command_lines as lines
import pytest

ALL = lines.all_lines()
# Line -> the reason why it cannot be compared with the tree. A line that no page has is an error.
EXCEPTIONS = {"build/fuzz/corpus/NAME": "a folder that ./check fuzz makes"}


def need_the_binary():
    if not lines.CLUSTER.exists():
        pytest.skip(f"{lines.CLUSTER} is not built")


def test_the_pages_have_command_lines():
    assert len(ALL) > 150 and {line.page for line in ALL} >= {"README.md", "docs/operate/running.md", "docs/apis/generation.md", "sdk/python/README.md"}


@pytest.mark.parametrize("page", sorted({line.page for line in ALL}))
def test_every_command_line_is_one(page):
    need_the_binary()
    wrong = [text for line in ALL if line.page == page and line.text not in EXCEPTIONS for text in lines.wrong_with(line)]
    assert wrong == []


def test_no_exception_is_out_of_date():
    need_the_binary()
    assert [text for text in EXCEPTIONS if not any(line.text == text and lines.wrong_with(line) for line in ALL)] == []


@pytest.mark.parametrize("text, wrong", [
    ("build/release/cluster up nodes.toml", "no build makes build/release/cluster"),
    ("build/nightly/cluster/cluster up nodes.toml", "build/nightly/cluster/cluster is no program of a build"),
    ("cluster plann nodes.toml", "cluster has no plann"),
    ("cluster plan --jsonl nodes.toml", "cluster plan has no --jsonl"),
    ("cluster model look FILE", "cluster has no model look"),
    ("cluster plan examples/nothing.toml", "there is no examples/nothing.toml"),
    ("./check everything", "./check has no level everything"),
    ("./check bench --only nothing", "./check bench has no section nothing"),
    ("./check sim --seat 3", "./check sim has no --seat"),
    ("./up --tpu", "./up has no --tpu"),
    ("python3 tests/bench/gpus.py", "there is no tests/bench/gpus.py"),
    ("cd there && python3 tests/bench/load.py --uri a", "tests/bench/load.py has no --uri"),
    ("python3 -m baton_worker.nothing a", "there is no module baton_worker.nothing"),
    ("cmake --build build/gpu --target nothing", "no target nothing"),
    ("gpu_bench --nothing", "gpu_bench has no --nothing"),
])
def test_invalid_commands_are_found(text, wrong):
    need_the_binary()
    assert lines.is_command(text)
    assert lines.wrong_with(lines.Line("page", text, True)) == [f"page: `{text}`: {wrong}"]


def test_a_line_is_taken_apart_as_a_shell_does():
    assert lines.commands_of("A=b cluster up x.toml >out 2>&1 && curl -d '{\"a\": 1}' u; ./check # all") == [
        ["cluster", "up", "x.toml"], ["curl", "-d", '{"a": 1}', "u"], ["./check"]]
    assert lines.lines_of_block("a $ b\n10.0.0.1 $ cluster keygen\n  says this\n$ cluster down\n") == ["cluster keygen", "cluster down"]
    assert lines.lines_of_block("python3 -c 'a\nb'\n\n./up\n") == ["python3 -c 'a\nb'", "./up"]
    assert [w[0] for w in lines.commands_of("bash -c 'cmake --preset dev; ./up'")] == ["bash", "cmake", "./up"]
    assert not lines.is_command("cluster.kill(name)") and not lines.is_command("up") and not lines.is_command("a cluster up")
