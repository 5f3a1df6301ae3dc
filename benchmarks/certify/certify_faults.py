# SPDX-License-Identifier: MIT
"""Faults injected into the solve path, for `cffem bench certify`: a certificate judges a solution
by the equation as it is written.

A loosened solver tolerance, a wrong sign of one term in the assembled equation, a time step that is
much too coarse: each must widen the bound, because the certificate evaluates the symbolic terms and
not the assembled ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import cffem as cf
from benchmarks.certify.certify_modal import families, perturbed

LOOSE = {"ksp_type": "gmres", "pc_type": "none", "ksp_rtol": 1e-2}


def wrong_sign(model: Any, term: str) -> Any:
    """Let a model assemble one term with the wrong sign, behind the back of its coefficients."""
    assemble = model.equation.use

    def use(coefficients: Any, *arguments: Any, **keywords: Any) -> Any:
        return assemble({**coefficients, term: -coefficients[term]}, *arguments, **keywords)

    model.equation.use = use
    return model


def faults(count: int, seed: int) -> Iterator[tuple[str, list[Any], float]]:
    """For each fault its name, the outcomes, and the median of how much it widened the margin."""
    from benchmarks.certify.certify_bench import measured

    for name in ("loosened tolerance", "wrong sign", "coarse time step"):
        outcomes, widened = [], []
        random = np.random.default_rng([seed, *name.encode()])
        for k in range(count):
            transient = name == "coarse time step" or k % 2 == 1
            family = families()["parabolic 2D" if transient else "steady 2D"]
            diffusion = float(10 ** random.uniform(-1, 0))
            coefficients = {
                "lap": diffusion,
                "mixing": 0.1 * diffusion,
                "u": -float(random.uniform(2, 8)) * diffusion,
            }
            domain = perturbed(2, int(random.integers(5, 9)), 0.1, float(random.uniform(0, 6)))
            window = cf.Window(0, 0.1 / diffusion, 8) if transient else None
            coarse = cf.Window(0, 0.1 / diffusion, 1) if name == "coarse time step" else window
            with (
                family.model(domain, coefficients, 1, window) as right,
                family.model(
                    domain, coefficients, 1, coarse, LOOSE if name == "loosened tolerance" else None
                ) as faulty,
            ):
                if name == "wrong sign":
                    wrong_sign(faulty, "u")
                outcome = measured(family, name, faulty, "mixing", 1)
                widened.append(
                    outcome.score[1] / measured(family, name, right, "mixing", 1).score[1]
                )
                outcomes.append(outcome)
        yield name, outcomes, float(np.median(widened))
