"""By how much tests wait longer on this machine than on the one that their deadlines were chosen on: measured once by ./check, and
passed to everything that it starts as BATON_TEST_DEADLINE_SCALE (Python: scaled_deadlines.py; C++: deadline_scale.hpp)."""
import os
import subprocess
import sys

VARIABLE = "BATON_TEST_DEADLINE_SCALE"
SCALE_MAX = 20.0
SLOWER_FROM = 1.25
# What a machine has to do at once while the system tests run.
PROCESSES = 2
# Seconds of the probe on two cores of a Xeon at 2.1 GHz that have nothing else to do, where all deadlines were found ample.
REFERENCE_SECONDS = 0.6
PROBE_SECONDS_MAX = 60
# Compression: branches, table look-ups and memory as in the code under test, and the same work whichever Python runs it.
PROBE = """
import random, time, zlib
text = random.Random(1).randbytes(1 << 16).hex().encode() * 4
begun = time.perf_counter()
for _ in range(12):
    zlib.compress(text, 6)
print(time.perf_counter() - begun)
"""


def probe():
    """Seconds that the slowest of the processes took for the same piece of work, side by side."""
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
    """1 on a machine that is as fast, within what two measurements differ by: there the deadlines stay what they are."""
    scale = seconds / reference
    return min(scale, SCALE_MAX) if scale >= SLOWER_FROM else 1.0


def told(text):
    """What the environment says; 1 for what is no number of at least that."""
    try:
        return min(max(1.0, float(text)), SCALE_MAX)  # in this order "nan" is 1
    except (TypeError, ValueError):
        return 1.0


def measured(environment):
    """The factor that stands in the environment, or that of a measurement, which stands there from now on."""
    if VARIABLE not in environment:
        environment[VARIABLE] = f"{scale_of(probe()):.2f}"
    return told(environment[VARIABLE])


def scaled(seconds):
    return seconds * told(os.environ.get(VARIABLE))
