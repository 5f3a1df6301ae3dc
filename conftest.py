"""Without DOLFINx only the symbolic layer and the data wing are collected; their doctests run
on any Python.
"""

from importlib.util import find_spec

FINITE_ELEMENT_WING = ("forms", "engine", "constraints", "bounds", "study", "validation")

collect_ignore_glob = (
    []
    if find_spec("dolfinx")
    else [*(f"cffem/{room}/*" for room in FINITE_ELEMENT_WING), "benchmarks/*"]
)
