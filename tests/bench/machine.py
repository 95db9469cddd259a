"""The machine, and the other load on it during a measurement, without which the result cannot be judged. Called by run.py."""
import os
import resource
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"


def memory_gib():
    with open("/proc/meminfo", encoding="utf-8") as info:
        return int(info.readline().split()[1]) / 1048576


def _whole_machine():
    """(busy seconds, stolen seconds) of all cores since boot."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _, _, irq, softirq, steal = (int(x) for x in stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / TICKS, steal / TICKS


def tree(root):
    """{pid: CPU seconds} of this process and its descendants, with the time of children that have ended."""
    parents, used = {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            continue  # ended meanwhile
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(int(x) for x in fields[11:15]) / TICKS
    found, todo = {}, [root]
    while todo:
        pid = todo.pop()
        found[pid] = used.get(pid, 0.0)
        todo += [p for p, parent in parents.items() if parent == pid]
    return found


def tree_pss(root):
    """Bytes of memory of this process and its descendants; shared memory counts once."""
    total = 0
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as maps:
                total += sum(int(line.split()[1]) for line in maps if line.startswith("Pss:")) * 1024
        except OSError:
            continue  # ended meanwhile
    return total


def roles(root):
    """{pid: its role, by its command line} of the cluster with this root."""
    found = {}
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as line:
                words = line.read().split("\0")
        except OSError:
            continue  # ended meanwhile
        found[pid] = words[1] if len(words) > 1 else words[0]
    return found


class Sampler:
    """Reads a value repeatedly while a block runs: [(time, value)]."""

    PERIOD = 0.05  # s

    def __init__(self, read):
        self._read = read
        self._samples = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _sample(self):
        self._samples.append((time.monotonic(), self._read()))

    def _watch(self):
        while not self._is_over.wait(self.PERIOD):
            self._sample()

    def __enter__(self):
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()
        self._sample()


class RoleTimes(Sampler):
    """The cores that each role of a cluster and this process, its client, use over time."""

    def __init__(self, root):
        super().__init__(self._used)
        self._roles = {**roles(root), os.getpid(): "client"}

    def _used(self):
        """{role: CPU seconds}"""
        used = {}
        for pid, role in self._roles.items():
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue  # ended meanwhile
            used[role] = used.get(role, 0.0) + (int(fields[11]) + int(fields[12])) / TICKS
        return used

    def cores(self, begin, end):
        """{role: average cores} between these times."""
        first = max((s for s in self._samples if s[0] <= begin), default=self._samples[0], key=lambda s: s[0])
        last = min((s for s in self._samples if s[0] >= end), default=self._samples[-1], key=lambda s: s[0])
        seconds = max(1e-3, last[0] - first[0])
        return {role: (last[1].get(role, 0.0) - used) / seconds for role, used in first[1].items()}


class Neighbours:
    """Cores used by processes that are no part of the measurement, between its begin and `cores()`."""

    def __init__(self, server_pid=None):
        self._pid = server_pid
        self._begin = self._now()

    def _now(self):
        own = resource.getrusage(resource.RUSAGE_SELF)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = own.ru_utime + own.ru_stime
        # A server still runs: it is read from /proc. A tool has been waited for: it is in RUSAGE_CHILDREN.
        ours += sum(tree(self._pid).values()) if self._pid else ended.ru_utime + ended.ru_stime
        return (time.monotonic(), ours, *_whole_machine())

    def seconds(self):
        return time.monotonic() - self._begin[0]

    def cores(self):
        """(cores used by others, cores stolen by the host)"""
        now = self._now()
        seconds = max(1e-3, now[0] - self._begin[0])
        busy, ours, stolen = now[2] - self._begin[2], now[1] - self._begin[1], now[3] - self._begin[3]
        return max(0.0, (busy - ours) / seconds), stolen / seconds


class StolenTime(Sampler):
    """CPU time of all cores stolen by the host, over time."""

    PERIOD = 0.02  # s

    def __init__(self):
        super().__init__(lambda: _whole_machine()[1])  # seconds since boot

    def cores_after(self, begin, seconds):
        """The average number of cores that the host took, in so many seconds from `begin` on."""
        before = [stolen for at, stolen in self._samples if at <= begin] or [self._samples[0][1]]
        until = [stolen for at, stolen in self._samples if at >= begin + seconds] or [self._samples[-1][1]]
        return (until[0] - before[-1]) / seconds
