# SPDX-License-Identifier: MIT
"""How much memory a process may still take: what the machine has left, what its control group
allows, and how many ranks share both.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class MemorySettings:
    """What is known about memory by itself.

    Attributes:
        unknown: bytes that are taken for free where nobody can tell.
        machine: the system's table of its memory.
        groups: where control groups are mounted.
        own: the system's table of the groups of this process.
        fresh: seconds for which an answer holds; asking takes 3 ms, and levels of error bars are
            many and small.
    """

    unknown: int = 2 << 30
    machine: Path = Path("/proc/meminfo")
    groups: Path = Path("/sys/fs/cgroup")
    own: Path = Path("/proc/self/cgroup")
    fresh: float = 0.0


MEMORY = MemorySettings(fresh=0.1)
_LAST: dict[MemorySettings, tuple[float, int]] = {}


def free_memory(settings: MemorySettings = MEMORY) -> int:
    """Bytes that this process may still take, if it were the only one.

    Example:
        >>> free_memory() > 0
        True
    """
    when, there = _LAST.get(settings, (-math.inf, 0))
    if time.monotonic() - when < settings.fresh:
        return there
    known = [value for value in (_machine(settings), _group(settings)) if value is not None]
    found = max(min(known, default=settings.unknown), 0)
    _LAST[settings] = time.monotonic(), found
    return found


def _machine(settings: MemorySettings) -> int | None:
    """What the machine has: free pages and those of its cache of files that it would give up."""
    try:
        for line in settings.machine.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _group(settings: MemorySettings) -> int | None:
    """What the control groups of this process, versions 1 and 2, leave of their limits."""
    try:
        lines = settings.own.read_text().splitlines()
    except OSError:
        return None
    left = []
    for line in lines:
        number, kinds, path = line.split(":", 2)
        if number == "0":
            root, names = settings.groups, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            root = settings.groups / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inner = root / path.strip("/")
        # Inside a container the group may be mounted as the root itself.
        for folder in (inner, *inner.parents):
            left += _left(folder, names)
            if folder == root:
                break
    return min(left, default=None)


def _left(folder: Path, names: tuple[str, str, str]) -> list[int]:
    """Limit less use of one group, whose cache of files is given up when it is needed."""
    try:
        limit = (folder / names[0]).read_text().strip()
        if limit == "max":
            return []
        used = int((folder / names[1]).read_text())
        table = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return [int(limit) - used + int(table.get(names[2], 0))]
    except (ValueError, OSError):
        return []


def ranks_on_node(comm: MPI.Comm) -> int:
    """How many ranks of a communicator share this machine's memory; collective."""
    from mpi4py import MPI

    if comm.size == 1:
        return 1
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        return int(here.size)
    finally:
        here.Free()


def free_per_rank(comm: MPI.Comm) -> int:
    """The least share of free memory that any rank has; collective."""
    from mpi4py import MPI

    return int(comm.allreduce(free_memory() // ranks_on_node(comm), op=MPI.MIN))
