"""The factor by which tests wait longer on this machine than on the reference machine of their deadlines. `./check` measures it once and
passes it to all its processes as BATON_TEST_DEADLINE_SCALE (Python: scaled_deadlines.py; C++: deadline_scale.hpp)."""
import os
import subprocess
import sys

VARIABLE = "BATON_TEST_DEADLINE_SCALE"
SCALE_MAX = 20.0
SLOWER_FROM = 1.25
# Parallel work of a machine while the system tests run.
PROCESSES = 2
# Seconds of the probe on two idle cores of a Xeon at 2.1 GHz, where all deadlines proved ample.
REFERENCE_SECONDS = 0.6
PROBE_SECONDS_MAX = 60
# Compression: branches, table look-ups and memory as in the code under test, with the same work under any Python.
PROBE = """
import random, time, zlib
text = random.Random(1).randbytes(1 << 16).hex().encode() * 4
begun = time.perf_counter()
for _ in range(12):
    zlib.compress(text, 6)
print(time.perf_counter() - begun)
"""


def probe():
    """Seconds of the slowest of several processes that do the same work in parallel."""
    ran = [subprocess.Popen([sys.executable, "-c", PROBE], stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    try:
        return max(float(one.communicate(timeout=PROBE_SECONDS_MAX)[0]) for one in ran)
    except subprocess.TimeoutExpired:
        return PROBE_SECONDS_MAX
    finally:
        for one in ran:
            one.kill()
            one.wait()


def scale_of(seconds, reference=REFERENCE_SECONDS):
    """1 on a machine of the same speed, within the noise of two measurements: deadlines stay unchanged there."""
    scale = seconds / reference
    return min(scale, SCALE_MAX) if scale >= SLOWER_FROM else 1.0


def told(text):
    """Parses the environment variable; 1 for anything else than a number of at least 1."""
    try:
        return min(max(1.0, float(text)), SCALE_MAX)  # in this order "nan" is 1
    except (TypeError, ValueError):
        return 1.0


def measured(environment):
    """The factor in the environment; if there is none, measures it and stores it there."""
    if VARIABLE not in environment:
        environment[VARIABLE] = f"{scale_of(probe()):.2f}"
    return told(environment[VARIABLE])


def scaled(seconds):
    return seconds * told(os.environ.get(VARIABLE))
