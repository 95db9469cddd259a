"""The memory of a running cluster by role, and whether it grows. Called by soak.py."""
import dataclasses
import math

from machine import tree

ROLES = ("gateway", "head", "agent", "shard")
MB = 1e6


def role_of(command_line):
    """Of /proc/PID/cmdline of a process of the cluster: its first word after the program; the copy that a shard leaves is a shard."""
    words = command_line.split(b"\0")
    role = words[1].decode(errors="replace") if len(words) > 1 else ""
    return role if role in ROLES else "root"


def held(rollup):
    """Bytes, of /proc/PID/smaps_rollup: its own part of what several share, without KV memory, whose size the plan has fixed."""
    kib = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss")}
    return (kib["Pss"] - kib["Pss_Shmem"]) * 1024


def by_role(root):
    """{role: bytes} of this process and all that descend from it."""
    roles = dict.fromkeys(("root", *ROLES), 0)
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as rollup:
                role, mine = role_of(line.read()), held(rollup.read())
        except (OSError, KeyError):
            continue  # ended meanwhile
        roles[role] += mine
    return roles


@dataclasses.dataclass
class Slope:
    """The slope by least squares, and its 95 % confidence interval if the deviations are random."""
    value: float
    low: float
    high: float


def slope(points):
    """The trend of [(x, y)]; None for fewer than three points, or if all have one x."""
    n = len(points)
    mean_x, mean_y = (sum(p[i] for p in points) / max(1, n) for i in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if n < 3 or spread == 0:
        return None
    value = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    beside = sum((y - mean_y - value * (x - mean_x)) ** 2 for x, y in points)
    error = 2 * math.sqrt(beside / (n - 2) / spread)
    return Slope(value, value - error, value + error)
