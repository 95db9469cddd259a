"""Goal: shells complete the commands and options that the help shows. Method: bash and zsh run the functions that packages install."""
import pathlib
import shutil
import subprocess

import completion
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packages/completion"
HELP = """Serve.
Usage: cluster run [OPTIONS] MODEL

Positionals:
  MODEL TEXT REQUIRED         a file

Options:
  -h,--help                   Print this help message and exit
  --serve Excludes: --print-config
                              serve until ^C
  --log-level TEXT:{debug,off} Needs: --serve
                              of all processes
[Option Group: to what]

  Options:
    --replicas UINT:UINT in [1 - 64]
                              at most those of nodes.toml
"""


def test_a_help_is_read():
    command = completion.parsed(("run",), HELP)
    assert command.positionals == ["MODEL"]
    assert [(one.names, one.value, one.choices, one.text) for one in command.options] == [
        (["-h", "--help"], "", [], "Print this help message and exit"), (["--serve"], "", [], "serve until ^C"),
        (["--log-level"], "TEXT", ["debug", "off"], "of all processes"), (["--replicas"], "UINT", [], "at most those of nodes.toml")]


@pytest.mark.parametrize("typed, offered", [
    (["r"], "run rm rotate-key remove-node"), (["model", ""], "inspect"), (["run", "--log-level", "w"], "warn"), (["run", "--name", ""], ""),
    (["logs", "--fo"], "--follow"), (["scale", "m", "--rep"], "--replicas"), (["help", "mod"], "models model"), (["run", "file", ""], "")])
def test_bash_offers(typed, offered):
    script = 'source "$1"; shift; COMP_WORDS=(cluster "$@"); COMP_CWORD=$#; _cluster; echo "${COMPREPLY[*]}"'
    done = subprocess.run(["bash", "-c", script, "bash", FOLDER / "cluster.bash", *typed], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == offered and not done.stderr


# zsh completes at a terminal alone: a key is pressed there.
ZSH = """
import os, pty, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", PS1="> ", COLUMNS="200")
    os.execvp("zsh", ["zsh", "-f", "-i"])
def shown(seconds, awaited):
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
        try: text += os.read(terminal, 65536)
        except OSError: break
        if awaited.encode() in text: break
    return text.decode(errors="replace")
os.write(terminal, f"unsetopt zle_bracketed_paste; fpath=({sys.argv[1]} $fpath); autoload -Uz compinit; compinit -u -D; echo -do''ne-\\n".encode())
shown(30, "-done-")
os.write(terminal, (sys.argv[2] + "\\t").encode())
print(shown(30, sys.argv[3]))
os.kill(pid, 9)
"""


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here")
@pytest.mark.parametrize("typed, completed", [("cluster rotat", "cluster rotate-key"), ("cluster model ins", "cluster model inspect"),
                                              ("baton run --print", "baton run --print-config"), ("cluster run --log-level of", "--log-level off")])
def test_zsh_completes(typed, completed):
    done = subprocess.run(["python3", "-c", ZSH, FOLDER, typed, completed], capture_output=True, text=True, timeout=120, check=False)
    assert completed in done.stdout, done.stdout[-2000:]
