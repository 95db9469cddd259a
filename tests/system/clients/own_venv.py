"""Clients whose requirements conflict with those of the others. Each has its own venv, .venv/clients/NAME, and runs as a program. `./check
system` makes it from tests/system/clients/NAME.txt. The clients of optional/NAME.txt are large or slow to install. `./check
frameworks` makes theirs; without it their tests are skipped. Makes venvs that are missing or differ:

    python3 tests/system/clients/own_venv.py [NAME ...]
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / ".venv" / "clients"
INSTALL_SECONDS_MAX = 1800


def requirements():
    """Name -> the file with the version of every package, those that the client requires included."""
    return {file.stem: file for file in sorted(HERE.glob("*.txt"))}


def optional():
    """The same, for the venvs that ./check does not make."""
    return {file.stem: file for file in sorted((HERE / "optional").glob("*.txt"))}


def file_of(name):
    return {**requirements(), **optional()}[name]


def is_made(name):
    stamp = FOLDER / name / "stamp"
    return stamp.exists() and stamp.read_text() == file_of(name).read_text()


def make(name):
    """Raises subprocess.CalledProcessError, with the output."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER / name], check=True, capture_output=True, text=True)
    subprocess.run([FOLDER / name / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", file_of(name)],
                   check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX)
    (FOLDER / name / "stamp").write_text(file_of(name).read_text())


def program(name, *path):
    """A program in the bin folder of the client's venv."""
    assert is_made(name), f"no venv for {name}: ./check system makes it, or python3 {__file__}"
    return FOLDER.joinpath(name, "bin", *path)


def main(names):
    for name in names or requirements():
        if not is_made(name):
            try:
                make(name)
            except subprocess.CalledProcessError as e:
                print(f"{name}: {e.stdout}{e.stderr}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
