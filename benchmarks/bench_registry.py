# SPDX-License-Identifier: MIT
"""The benchmarks behind `cffem bench NAME`: a mapping from names to functions that take
arguments and return an exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def screening(arguments: Sequence[str]) -> int:
    """Identification from noisy data, with PySINDy beside it where installed."""
    from benchmarks.screening.screening_bench import main

    return main(arguments)


def leray(arguments: Sequence[str]) -> int:
    """Terms of plane flow under the Leray projection: null exactly, in the limit, or not at all."""
    from cffem.validation.leray import main

    return main(arguments)


def certify(arguments: Sequence[str]) -> int:
    """Error bars against exact solutions: coverage, sharpness, decisions, faults and cost."""
    from benchmarks.certify.certify_bench import main

    return main(arguments)


def sweep(arguments: Sequence[str]) -> int:
    """What all deletions cost beside the same study written by hand in DOLFINx."""
    from benchmarks.sweep.sweep_bench import main

    return main(arguments)


def study(arguments: Sequence[str]) -> int:
    """What a certified study costs beside the loop by hand, and whether its verdicts are right."""
    from benchmarks.study.study_bench import main

    return main(arguments)


def refinement(arguments: Sequence[str]) -> int:
    """How many unknowns verdicts need on cells that are divided where they need it."""
    from benchmarks.study.refinement_bench import main

    return main(arguments)


def projection(arguments: Sequence[str]) -> int:
    """What one projection onto a constraint class costs, in units of one Poisson solve."""
    from benchmarks.projection_bench import main

    return main(arguments)


def sensors(arguments: Sequence[str]) -> int:
    """Coefficients and needed terms from few sensors: coverage, exact sets, aliases and cost."""
    from benchmarks.sensors.sensor_bench import main

    return main(arguments)


def scale(arguments: Sequence[str]) -> int:
    """Three problems at growing sizes and on many ranks: iterations, time, memory, messages."""
    from benchmarks.scale.scale_bench import main

    return main(arguments)


def capabilities(arguments: Sequence[str]) -> int:
    """What works for which class of problems, tried cell by cell."""
    from benchmarks.capabilities.capability_table import main

    return main(arguments)


BENCHES: dict[str, Callable[[Sequence[str]], int]] = {
    "screening": screening,
    "certify": certify,
    "leray": leray,
    "sweep": sweep,
    "study": study,
    "refinement": refinement,
    "projection": projection,
    "sensors": sensors,
    "scale": scale,
    "capabilities": capabilities,
}
