"""Goal: docs/start/first-minute.md shows what a reader sees, from a machine with nothing to an answer. Method: the sessions are recorded in a fresh
minimal Debian 12, and compared with the page. BATON_WRITE_TRANSCRIPT=1 writes the page.

The hub is our own, on loopback (tests/support/model_hub.py). It serves the default model under the name that `smollm2` stands for."""
import os
import pathlib
import re
import shutil
import tempfile

import chroot
import make
import model_hub
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/start/first-minute.md"
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
REPOSITORY, FILE = "bartowski/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct-Q4_K_M.gguf"  # of smollm2
RUN = 'cluster run smollm2 "What is the capital of France?" --pull --temperature 0'
ANSWER = "The capital of France is Paris."
# Lines of dpkg are left out, except the end of our package: they change with Debian's packages.
OF_DPKG = re.compile(r"^(Reading|\(Reading|Selecting|Preparing|Unpacking|Setting up|Processing triggers|Extracting|Preconfiguring|debconf:|Updating)")
# Kind -> (packages of the machine, the installing user, the install line, the folder of the program)
SESSIONS = {"deb": ("", "root", "apt-get install -y -qq --no-install-recommends ./{package}", ""),
            "wheel": ("python3-venv", chroot.USER, "python3 -m venv baton && baton/bin/pip install ./{package}", "baton/bin/")}


@pytest.fixture
def hub():
    hub = model_hub.Hub()
    hub.repositories[REPOSITORY] = model_hub.Repository({FILE: MODEL.read_bytes()})
    yield hub
    hub.close()


def shown(output, version):
    """Shows the output of a release build with the default port, like the page."""
    text = output.replace(version, make.declared_version())
    text = re.sub(r"http://127\.0\.0\.1:\d+/v1", "http://127.0.0.1:8000/v1", text)
    return "".join(line + "\n" for line in without_debian(text.splitlines()))


def without_debian(lines):
    """Lines about other packages become one `...`."""
    kept = []
    for line in lines:
        text = "..." if OF_DPKG.match(line) and not line.startswith("Setting up baton ") else line
        if text != "..." or kept[-1:] != ["..."]:
            kept.append(text)
    return kept


def compared(session):
    """Removes what differs from machine to machine: sizes, speeds and times."""
    return re.sub(r"\b\d+(\.\d+)? ?([kMGT]?B(/s)?|s)\b", "N", session)


def record(machine, package, kind, hub):
    """-> the session of a user who installs a package and asks a model"""
    _, user, install, folder = SESSIONS[kind]
    version = re.search(r"[-_](\d[^-_]*)", package)[1]
    session = ""
    for command, who in ((install.format(package=package), user), (folder + RUN, chroot.USER)):
        environment = {"HF_ENDPOINT": hub.url, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        output = machine.run(f"exec 2>&1 </dev/null; {command}", who, **environment)
        session += shown(f"{'#' if who == 'root' else '$'} {command}\n{output}", version)
    return session


def block_of(page, kind):
    """-> (the text before, the session, the text behind)"""
    begin, end = f"<!-- session {kind} -->\n\n```text\n", f"```\n\n<!-- end of session {kind} -->"
    before, _, rest = page.partition(begin)
    session, _, after = rest.partition(end)
    assert rest and after, f"{PAGE} has no session {kind}"
    return before + begin, session, end + after


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_machine_with_nothing_has_an_answer_after_two_lines(kind, base, hub, out):
    package, = out.glob({"deb": "baton_*_amd64.deb", "wheel": "baton_server-*.whl"}[kind])
    before, user, _, folder = SESSIONS[kind]
    with tempfile.TemporaryDirectory(prefix="baton-chroot-") as scratch:
        machine = chroot.copy_of(base, pathlib.Path(scratch, "root"))
        try:
            machine.prepare(before or "ca-certificates")
        except SystemExit as error:
            pytest.skip(f"Debian's packages cannot be had: {str(error).strip().splitlines()[-1]}")
        shutil.copy(package, machine.root / ("root" if user == "root" else f"home/{user}") / package.name)
        session = record(machine, package.name, kind, hub)
        # The second name, and the model that is there now: nothing is downloaded, and the hub is not needed.
        again = machine.run(f"{folder}baton {RUN.removeprefix('cluster ').replace('--pull ', '')} 2>/dev/null", chroot.USER, HF_HUB_OFFLINE="1")
    assert ANSWER in session and again == ANSWER + "\n"
    head, written, tail = block_of(PAGE.read_text(), kind)
    if os.environ.get("BATON_WRITE_TRANSCRIPT"):
        PAGE.write_text(head + session + tail)
    else:
        assert compared(session) == compared(written), "BATON_WRITE_TRANSCRIPT=1 writes the page"


def test_lines_about_packages_of_debian_are_left_out():
    lines = ["Selecting previously unselected package libcurl4:amd64.", "(Reading database ... 6000 files)", "Setting up libcurl4:amd64 (7) ...",
             "Unpacking baton (0.1.0) ...", "Setting up baton (0.1.0) ...", "Processing triggers for libc-bin (2.36) ...", "an answer"]
    assert without_debian(lines) == ["...", "Setting up baton (0.1.0) ...", "...", "an answer"]


def test_numbers_of_a_machine_are_no_difference():
    line = "memory: 188 MB for weights and 537 MB for the KV cache, of {} available; context of {} tokens"
    assert compared(line.format("22.7 GB", 8192)) == compared(line.format("640 MB", 8192)) != compared(line.format("22.7 GB", 4096))
