"""Between two processes of a running cluster: their bus sockets' paths, a proxy's sockets in their place, and faults on what passes.

A link is two connections, each to the other's socket file (docs/reference/protocol-link.md). Both files are moved aside and listened on here;
then the connections that stand are shut down from outside, and the peers connect again, through here. Other processes' connections
are left alone, and pass unchanged if they come anew. At the end the files are back where they were.
"""
import contextlib
import ctypes
import os
import pathlib
import socket
import struct
import threading
import time

import zmtp
from bus_faults import Cut

PATIENCE_SECONDS = 15
PIDFD_GETFD = 438


def unix_sockets():
    """{inode: (path, whether a process listens there)} of all sockets that have a path."""
    found = {}
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8:
            found[int(fields[6])] = (fields[7], fields[3] == "00010000")
    return found


def sockets_of(pid):
    """[(descriptor, inode)]"""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if (target := os.readlink(entry)).startswith("socket:["):
                found.append((int(entry.name), int(target[8:-1])))
    return found


def listens_at(pid, directory):
    """The path of this process's bus socket."""
    known = unix_sockets()
    paths = [known[inode][0] for _, inode in sockets_of(pid) if inode in known and known[inode][1]]
    return next(p for p in map(pathlib.Path, paths) if p.parent == directory and p.suffix == ".sock")


def peer_of(connection):
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def shut_down(pid, path, peer):
    """The connections to this path that `pid` has accepted from `peer`. -> how many"""
    libc, known, count = ctypes.CDLL(None, use_errno=True), unix_sockets(), 0
    handle = os.pidfd_open(pid)
    try:
        for descriptor, inode in sockets_of(pid):
            if known.get(inode) != (str(path), False):
                continue
            copy = libc.syscall(PIDFD_GETFD, handle, descriptor, 0)
            if copy < 0:
                raise OSError(ctypes.get_errno(), f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
            with socket.socket(fileno=copy) as connection:
                if peer_of(connection) == peer:
                    connection.shutdown(socket.SHUT_RDWR)
                    count += 1
    finally:
        os.close(handle)
    return count


class Connection:
    """A connection through the proxy: two threads, one for each direction."""

    def __init__(self, near, far, directions):
        self._near, self._far = near, far
        self._threads = [threading.Thread(target=self._pass_on, args=(a, b, d), daemon=True)
                        for a, b, d in ((near, far, directions[0]), (far, near, directions[1]))]
        for t in self._threads:
            t.start()

    def _pass_on(self, source, sink, direction):
        reader = zmtp.Reader()
        try:
            while data := source.recv(1 << 16):
                for unit in reader.take(data):
                    for piece in direction.treat(unit):
                        sink.sendall(piece)
        except Cut as cut:
            with contextlib.suppress(OSError):
                sink.sendall(cut.last)
        except ValueError as error:
            direction.broken.append(str(error))
        except OSError:
            pass  # the other direction has ended it
        self.fall()

    def fall(self):
        for end in (self._near, self._far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.fall()
        for t in self._threads:
            t.join(PATIENCE_SECONDS)
        self._near.close()
        self._far.close()


class Direction:
    """Everything that one process sends to another, over all their connections."""

    def __init__(self):
        self.fault, self.units, self.broken = None, 0, []
        self._lock = threading.Lock()  # of those connections, one at a time

    def treat(self, unit):
        self.units += 1
        fault = self.fault
        if fault is None:
            return [unit.encode()]
        with self._lock:
            return fault.treat(unit)


class Door:
    """One socket file, and the process behind it."""

    def __init__(self, path, direction_of):
        self._path, self._aside = path, path.with_name(path.name + ".aside")
        self._direction_of = direction_of  # by the pid of who connects: (there, back)
        self._connections = []
        os.rename(path, self._aside)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(str(self._aside))
                except OSError:
                    near.close()
                    continue
                self._connections.append(Connection(near, far, self._direction_of(peer_of(near))))

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_SECONDS)
        self._listener.close()
        os.replace(self._aside, self._path)
        for c in self._connections:
            c.close()


class Between:
    """As a context: two processes of a cluster, by name. `there` is what the first says to the second, `back` what is said to it."""

    def __init__(self, cluster, first, second):
        self._directory = cluster.directory / "run"
        self._pids = cluster.pid(first), cluster.pid(second)
        self.there, self.back = Direction(), Direction()
        self._doors = []

    def __enter__(self):
        first, second = self._pids
        try:
            for owner, peer, there, back in ((first, second, self.back, self.there), (second, first, self.there, self.back)):
                path = listens_at(owner, self._directory)
                self._doors.append(Door(path, lambda pid, p=peer, d=(there, back): d if pid == p else (Direction(), Direction())))
                if shut_down(owner, path, peer) == 0:
                    raise AssertionError(f"process {peer} has no connection to {path}")
            self._wait(lambda: self.there.units > 8 and self.back.units > 8)  # greetings, hello and hello_ack of both
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for door in self._doors:
            door.close()

    @staticmethod
    def _wait(is_so):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "the peers do not connect through the proxy"
            time.sleep(0.01)

    def strike(self, fault, seed, both=True):
        """From now on; -> what to look at for hits."""
        self.there.fault = fault(f"{seed} there")
        self.back.fault = fault(f"{seed} back") if both else None
        return [f for f in (self.there.fault, self.back.fault) if f]

    def heal(self):
        self.there.fault = self.back.fault = None
