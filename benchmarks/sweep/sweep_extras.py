# SPDX-License-Identifier: MIT
"""What `cffem bench sweep` measures besides the sweeps themselves: NGSolve, growth of the cost, and
a second rank.

Each part returns plain data for `sweep.json` and renders itself as a section of the page; a part
that cannot run here says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.sweep import sweep_growth, sweep_ngsolve, sweep_ranks

SECTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "ngsolve": sweep_ngsolve.section,
    "growth": sweep_growth.section,
    "ranks": sweep_ranks.section,
}


def measured(
    comm: Any, tiny: bool = False, large: bool = False, parts: Sequence[str] = tuple(SECTIONS)
) -> dict[str, Any]:
    """Measure the parts, each under its name.

    Args:
        comm: the communicator, of one process; the second rank is started by the part itself.
        tiny: sizes that only show that everything runs.
        large: NGSolve's larger sizes too.
        parts: which of `SECTIONS`.
    """
    how: dict[str, Callable[[], dict[str, Any]]] = {
        "ngsolve": lambda: sweep_ngsolve.run(comm, tiny, large=large),
        "growth": lambda: sweep_growth.run(comm, tiny),
        "ranks": lambda: sweep_ranks.run(tiny),
    }
    found = {}
    for name in parts:
        found[name] = how[name]()
        print(sections({name: found[name]}), flush=True)
    return found


def sections(found: Mapping[str, Mapping[str, Any]]) -> str:
    """What was measured as text for the page."""
    return "\n".join(SECTIONS[name](result) for name, result in found.items())
