"""Faults that a bus applies to the messages of one direction of a link, by a seed. Pure except for delays.

Each fault gets a whole unit of zmtp.py and returns its replacement; `Cut` then ends the connection.
"""
import dataclasses
import random
import time

import zmtp

SHARE = 0.05  # of the messages; the first is always among them
DELAY_SECONDS = 0.04
STALL_SECONDS = 2.0  # more than the links' heartbeat_timeout


class Cut(Exception):
    """The connection is to be cut; `last` is sent first."""

    def __init__(self, last):
        super().__init__("cut")
        self.last = last


class Fault:
    """A fault of one direction. `hits` counts its applications."""

    def __init__(self, seed):
        self.dice, self.hits = random.Random(seed), 0

    def treat(self, unit):
        """-> list of byte strings"""
        if not unit.is_message or (self.hits and self.dice.random() >= SHARE):
            return self.others(unit)
        self.hits += 1
        return self.hit(unit)

    def others(self, unit):
        return [unit.encode()]

    def hit(self, unit):
        raise NotImplementedError


class Delay(Fault):
    def others(self, unit):
        time.sleep(self.dice.random() * DELAY_SECONDS)
        return [unit.encode()]

    hit = others


class Stall(Fault):
    def hit(self, unit):
        time.sleep(STALL_SECONDS)
        return [unit.encode()]


class Drop(Fault):
    def hit(self, unit):
        return []


class Truncate(Fault):
    def hit(self, unit):
        return [dataclasses.replace(unit, payload=unit.payload[:self.dice.randrange(len(unit.payload))]).encode()]


class Flip(Fault):
    def hit(self, unit):
        payload = bytearray(unit.payload)
        bit = self.dice.randrange(8 * len(payload))
        payload[bit // 8] ^= 1 << bit % 8
        return [dataclasses.replace(unit, payload=bytes(payload)).encode()]


class Duplicate(Fault):
    def hit(self, unit):
        return [unit.encode()] * 2


class Reorder(Fault):
    """The next one passes it."""

    def __init__(self, seed):
        super().__init__(seed)
        self._held = []

    def treat(self, unit):
        if unit.is_message and self._held:
            return [unit.encode(), self._held.pop()]
        return super().treat(unit)

    def hit(self, unit):
        self._held.append(unit.encode())
        return []


class CutInside(Fault):
    """Cuts the connection in the middle of a frame."""

    def hit(self, unit):
        whole = unit.encode()
        raise Cut(whole[:self.dice.randrange(len(whole))])


class Swallow(Fault):
    """A half-open connection: nothing passes, and neither side sees an end."""

    def treat(self, unit):
        if isinstance(unit, zmtp.Greeting):
            return [unit.encode()]
        self.hits += 1
        return []
