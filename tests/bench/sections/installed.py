"""The packages: their sizes, and the time from `pip install` of the wheel to its first token. Called by first_minute.py.

Each round has a fresh virtual environment, made before the clock starts, and nothing of this machine's environment. The proof in a
machine without a compiler is tests/packages/chroot.py.
"""
import os
import subprocess
import sys
import time

import report
import servers
from sections import first_token
from settings import ToolFailed, run_tool, say

MB = 1e6
BAR_MB = 25
BAR_SECONDS = 15
MAKE_SECONDS_MAX = 900
KINDS = {"deb": "baton_*_amd64.deb", "wheel": "baton_server-*-manylinux_*_x86_64.whl"}


def package(settings, kind):
    """-> the newest of its kind in the folder of packages; without one, it is made from the build. Raises ToolFailed."""
    made = settings.scratch / "dist"
    for folder in (settings.packages, made):
        if found := sorted(folder.glob(KINDS[kind]), key=lambda file: file.stat().st_mtime):
            return found[-1]
    say(f"{settings.packages} has no {kind}: it is made of {settings.build}")
    run_tool([sys.executable, servers.ROOT / "packages/make.py", "--build-dir", settings.build, "--out", made, kind], MAKE_SECONDS_MAX)
    found, = made.glob(KINDS[kind])
    return found


def sizes(settings):
    rows = []
    for kind in KINDS:
        try:
            file = package(settings, kind)
        except ToolFailed as error:
            rows.append(report.missing(f"sizes.{kind}", str(error), "MB", BAR_MB, lower_is_better=True))
            continue
        say(f"sizes: {file}")
        rows.append(report.judged(f"sizes.{kind}", file.stat().st_size / MB, "MB", BAR_MB, lower_is_better=True))
    return rows


def one_installation(settings, file):
    """-> (seconds to the first token, seconds until pip ended)"""
    with first_token.own_place() as environment:
        venv = os.path.join(environment["HOME"], "venv")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True, timeout=first_token.SECONDS_MAX)
        with settings.watch("pip install and cluster run"):
            begun = time.monotonic()
            pip = subprocess.run([f"{venv}/bin/pip", "install", "--no-index", file], env=environment, capture_output=True, text=True, check=False,
                                 timeout=first_token.SECONDS_MAX)
            if pip.returncode:
                raise servers.ServerFailed(f"pip: {pip.stderr.strip()[-200:]}")
            installed = time.monotonic() - begun
            return first_token.seconds_to_first_byte(first_token.run_command(f"{venv}/bin/cluster", settings.model), environment, begun), installed


def wheel(settings):
    name = "wheel.first_token"
    try:
        file = package(settings, "wheel")
        results = []
        for round_index in range(settings.rounds):
            say(f"wheel: round {round_index + 1} of {settings.rounds}")
            results.append(settings.undisturbed(lambda: one_installation(settings, file)))
    except (ToolFailed, servers.ServerFailed) as error:
        return [report.missing(name, str(error), "s", BAR_SECONDS, lower_is_better=True)]
    return [report.median_row(name, [whole for whole, _ in results], "s", BAR_SECONDS, lower_is_better=True),
            report.median_row("wheel.pip_install", [installed for _, installed in results], "s")]
