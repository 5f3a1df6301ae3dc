# SPDX-License-Identifier: MIT
"""Solving N' ≤ r(t) + g N + s ∫₀ᵗ N step by step, and its norm in L2(0, T).

With M = ∫N the pair obeys (N, M)' ≤ A (N, M) + (r, 0), A = ((g, s), (1, 0)), whose exponential has
no negative entries. Sources enter at the start of their step, which only enlarges the bound; inside
a step ∫r ≤ (t − t_{n−1})^{1/2} ρ_n with ρ_n = ‖r‖ in L2 of the step.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm


def evolve(
    start: float, sources: np.ndarray, lengths: np.ndarray, growth: float = 0.0, memory: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of N.

    Args:
        start: N(0).
        sources: ρ_n.
        lengths: the lengths of the steps.
        growth: g ≥ 0.
        memory: s ≥ 0.

    Returns:
        Bounds at the levels, and in L2 of each step.

    Example:
        >>> levels, steps = evolve(1.0, np.zeros(4), np.full(4, 0.25))
        >>> levels.tolist(), steps.tolist()
        ([1.0, 1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5])
    """
    generator = np.array([[growth, memory], [1.0, 0.0]])
    kernels = {step: expm(step * generator) for step in set(lengths.tolist())}
    levels, steps = [float(start)], []
    state = np.array([float(start), 0.0])
    for source, step in zip(sources, lengths.tolist(), strict=True):
        kernel = kernels[step]
        carried = kernel @ state
        rise = kernel[0, 0] * np.sqrt(step) * source
        steps.append(np.sqrt(step * (carried[0] ** 2 + 4 / 3 * carried[0] * rise + rise**2 / 2)))
        state = carried + kernel[:, 0] * np.sqrt(step) * source
        levels.append(float(state[0]))
    return np.array(levels), np.array(steps, dtype=float)
