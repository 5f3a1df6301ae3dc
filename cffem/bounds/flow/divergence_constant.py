# SPDX-License-Identifier: MIT
"""A lower bound of β = inf_q sup_w (q, div w)/(‖q‖ ‖∇w‖), q of mean zero and w = 0 on the boundary,
for polygons that are star-shaped (Horgan and Payne; Costabel and Dauge).

Let the boundary be r = f(θ) around a centre, and F = h + i g holomorphic with h = 0 there. On the
curves t f(θ), 0 < t < 1, dz/z = (f'/f + i) dθ, and the integral of F² dz/z has an imaginary part
that is not positive, so that

    ∫ (h² − g²) dθ ≤ −2 ∫ h g f'/f dθ ≤ ∫ (1 − α f²) h² dθ + ∫ (f'/f)²/(1 − α f²) g² dθ

for every α > 0 with α f² < 1. Integrated over t with the weight t, that is ‖h‖² ≤ Γ ‖g‖² with

    Γ = sup 1/(α f²) (1 + (f'/f)²/(1 − α f²)) = sup (1/d² − α)/(α (1 − α f²)),

d the distance of the centre to the tangent, since 1 + (f'/f)² = f²/d². On a side d is constant and
f largest at an end. A field w that is orthogonal, in (∇·, ∇·), to all fields without divergence has
Δw = ∇q; so h = div w − q and g = curl w are conjugate, ‖g‖² = |(div w, h)| ≤ ‖div w‖ Γ^{1/2} ‖g‖,
and ‖∇w‖² = ‖div w‖² + ‖curl w‖² ≤ (1 + Γ) ‖div w‖²: β² ≥ 1/(1 + Γ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry.overlap import facet_normals


@dataclass(frozen=True)
class StarSearch:
    """How the centre of a star-shaped polygon is found.

    Attributes:
        turns: angles at which sides begin and others end are the same up to this, against rounding.
        away: how far the centre stays from the lines of all sides, as a share of the size.
        grids: how many places in each direction are tried for a first centre, one after another.
        steps: the most steps from there to the best one; any centre gives a bound.
        places: how many values of α are tried before the best of them is improved.
        exponent: 1 − α max f² is tried down to 10 to minus this.
    """

    turns: float = 1e-9
    away: float = 1e-6
    grids: tuple[int, ...] = (9, 40)
    steps: int = 150
    places: int = 40
    exponent: float = 4.0


SEARCH = StarSearch()


@dataclass(frozen=True)
class DivergenceConstant:
    """β from below.

    Attributes:
        value: the bound.
        centre: of the star.
    """

    value: float
    centre: tuple[float, float]

    @property
    def evidence(self) -> tuple[str, str]:
        """A statement and how it was checked."""
        x, y = self.centre
        return (
            f"‖div w‖ ≥ {self.value:.4g} ‖∇w‖ for fields w = 0 on the boundary that are orthogonal "
            "to those without divergence",
            f"the polygon is star-shaped around ({x:.4g}, {y:.4g}): sides seen from there, Horgan "
            "and Payne",
        )


def divergence_constant(sides: np.ndarray) -> DivergenceConstant:
    """β of the polygon whose boundary consists of some sides, shape (sides, 2, 2), in any order.

    Raises:
        NotCovered: no centre was found around which the polygon is star-shaped.

    Example:
        >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        >>> sides = np.stack([square, np.roll(square, -1, axis=0)], axis=1).astype(float)
        >>> abs(divergence_constant(sides).value - math.sin(math.pi / 8)) < 1e-6
        True
    """
    size = float(np.ptp(sides.reshape(-1, 2), axis=0).max())
    middle = sides.reshape(-1, 2).mean(axis=0)
    unit = (sides - middle) / size
    normals = facet_normals(unit)
    centre = _first_centre(unit, normals)
    if centre is None:
        raise NotCovered(
            "no lower bound of the inf–sup constant is known: the domain is not star-shaped"
        )
    found = minimize(
        lambda c: -_ratio(unit, normals, c),
        centre,
        method="Nelder-Mead",
        options={"maxfev": SEARCH.steps, "xatol": 1e-10, "fatol": 1e-12},
    )
    best = max((centre, found.x), key=lambda c: _ratio(unit, normals, c))
    gamma = _friedrichs(unit, normals, best)
    x, y = middle + size * best
    return DivergenceConstant(1 / math.sqrt(1 + gamma), (float(x), float(y)))


def _distances(sides: np.ndarray, normals: np.ndarray, centre: np.ndarray) -> np.ndarray | None:
    """Distances of a centre to the lines of all sides, None where it is no centre of a star.

    It is one where the sides, seen from there, follow one another around it: then each ray meets
    one of them, and none lies along a ray.
    """
    ends = sides - centre
    distance: np.ndarray = np.abs(np.einsum("si,si->s", normals, ends[:, 0]))
    if distance.min() < SEARCH.away:
        return None
    across = ends[:, 0, 0] * ends[:, 1, 1] - ends[:, 0, 1] * ends[:, 1, 0]
    width = np.abs(np.arctan2(across, np.einsum("si,si->s", ends[:, 0], ends[:, 1])))
    first = np.where((across > 0)[:, None], ends[:, 0], ends[:, 1])
    start = np.arctan2(first[:, 1], first[:, 0])
    order = np.argsort(start)
    start, width = start[order], width[order]
    following = np.append(start[1:], start[0] + 2 * math.pi)
    return distance if np.abs(start + width - following).max() < SEARCH.turns else None


def _ratio(sides: np.ndarray, normals: np.ndarray, centre: np.ndarray) -> float:
    """The least distance to a line through the largest distance of a corner, zero where there is no
    star; the larger, the better for the bound.
    """
    distance = _distances(sides, normals, centre)
    if distance is None:
        return 0.0
    return float(distance.min() / np.linalg.norm(sides - centre, axis=2).max())


def _friedrichs(sides: np.ndarray, normals: np.ndarray, centre: np.ndarray) -> float:
    """Γ for the centre of a star; any α gives a bound."""
    distance = _distances(sides, normals, centre)
    assert distance is not None
    far = (np.linalg.norm(sides - centre, axis=2) ** 2).max(axis=1)
    steep = 1 / distance**2

    def largest(exponent: float) -> float:
        alpha = (1 - 10.0**-exponent) / far.max()
        return float(((steep - alpha) / (alpha * (1 - alpha * far))).max())

    places = np.linspace(0.01, SEARCH.exponent, SEARCH.places)
    best = int(np.argmin([largest(place) for place in places]))
    ends = float(places[max(best - 1, 0)]), float(places[min(best + 1, len(places) - 1)])
    found = minimize_scalar(largest, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return min(float(found.fun), largest(places[best]))


def _first_centre(sides: np.ndarray, normals: np.ndarray) -> np.ndarray | None:
    """The best of some places, None where none is the centre of a star."""
    corners = sides.reshape(-1, 2)
    low, high = corners.min(axis=0), corners.max(axis=0)
    for count in SEARCH.grids:
        shares = (np.arange(count) + 0.5) / count
        places = [low + np.array([a, b]) * (high - low) for a in shares for b in shares]
        best = max(places, key=lambda place: _ratio(sides, normals, place))
        if _ratio(sides, normals, best) > 0:
            return best
    return None
