"""Processes that tests start: those below one, and the environment for runs of their own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

HERE = Path(__file__).parent


def descendants(pid: int) -> list[int]:
    """All processes below one; mpirun gives each rank a process group of its own, so killing
    a group is not enough.
    """
    parent = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as stat:
            parent[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
    found: list[int] = []
    frontier = [pid]
    while frontier:
        frontier = [child for child, above in parent.items() if above in frontier]
        found += frontier
    return sorted(found)


def mpi_environment() -> dict[str, str]:
    """The environment for a run of its own, also when the tests themselves were started by
    mpirun.
    """
    from cffem.doctor import environment_of_ranks

    clean = environment_of_ranks()
    clean["PYTHONPATH"] = os.pathsep.join(
        [str(HERE), str(HERE.parent), *filter(None, [clean.get("PYTHONPATH")])]
    )
    clean.setdefault("OMP_NUM_THREADS", "1")
    clean.setdefault("OMPI_MCA_btl", "self,sm")
    # Ranks wait in a loop that takes a whole core unless told to yield; beside another test that is
    # four times slower.
    clean.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    # Open MPI 6 renamed both settings, and warns of the old names; the launcher says which it
    # knows.
    renamed = "PRTE_MCA_mapby" in clean
    clean.setdefault(
        "PRTE_MCA_bindto" if renamed else "PRTE_MCA_hwloc_default_binding_policy", "none"
    )
    if not renamed:
        clean.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    if os.geteuid() == 0:
        clean.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return clean
