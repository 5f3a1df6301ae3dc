# SPDX-License-Identifier: MIT
"""Weak rows of measured data: all derivatives on the test functions, noise drawn again to know what
it did.

Row k tests the equation with φ_k: y_k = ⟨anchor[u], φ_k⟩ and A_kj = ⟨T_j[u], φ_k⟩ with derivatives
moved to φ_k. Powers of noisy values are replaced by Hermite polynomials, whose mean is the power of
the noise-free value. The same rows of the denoised data, and of denoised data with fresh noise,
tell the design how noise enters its Gram (errors in variables).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.data.dataset import Dataset
from cffem.data.noise.grid_noise import noise_ratio
from cffem.data.noise.missing_values import without_empty_slices
from cffem.data.rows.conservation import Order, derivative_order, orders_of
from cffem.data.rows.integrands import (
    Variance,
    check_axes,
    check_integrand,
    compiled,
    contributions,
    hermite,
)
from cffem.data.rows.on_grids import GridSampling
from cffem.data.rows.on_points import PointSampling
from cffem.data.rows.row_blocks import RowBlock
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, VectorField
from cffem.symbols.problem.library import CandidateTerms

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class WeakRowSettings:
    """Rows from integrals of the data.

    Args:
        draws: draws of noise that tell how much of it the integrals carry into the rows.
        quiet_draws: the same where the noise is below `quiet`.
        quiet: noise level below which discretisation outweighs noise.
    """

    draws: int = 6
    quiet_draws: int = 3
    quiet: float = 1e-3


WEAK_ROWS = WeakRowSettings()


def weak_rows(
    data: Dataset, library: CandidateTerms, narrower: float | None = None
) -> Iterator[RowBlock]:
    """Rows of the weak design of a library, one block of rows after the other.

    Args:
        data: the data.
        library: anchor and terms.
        narrower: share of the usual width of test functions along space, on grids.
    """
    measured = without_empty_slices(data)
    plan = WeakRowPlan(measured, library)
    averaged = plan.sampling.averaged(plan.noise_ratio)
    if averaged is not measured:
        plan = WeakRowPlan(averaged, library, noisy=True)
    if narrower is not None:
        plan.sampling = plan.sampling.narrowed(narrower)
    raw = plan.evaluate({name: plan.sampling.filled(v) for name, v in plan.data.values.items()})
    smooth = plan.evaluate(plan.denoised, exact=True)
    draws = plan.draws()
    bias = draws.mean(axis=0) - smooth
    scale = np.sqrt(
        (len(draws) + 1) / (len(draws) - 1)
    )  # the mean of the draws is itself known from them only
    noise = (draws - draws.mean(axis=0)) * scale
    defect = plan.defect(smooth)
    noise = noise + common_draws(len(draws)) * defect
    complete = np.tile(plan.sampling.complete, plan.families)
    labels = np.tile(plan.sampling.blocks, plan.families)
    # Few test functions on a small grid overlap less than the count along each axis supposes.
    share = min(1.0, plan.sampling.effective * plan.families / max(1, complete.sum()))
    data.notes.update(plan.notes())
    if data.points is None and data.mask is None:  # elsewhere it is a lower order of reconstruction
        energy = max(float((smooth[:, 0] ** 2).sum()), np.finfo(float).tiny)
        data.notes["defect"] = float((defect[:, 0] ** 2).sum()) / energy
    for label in np.unique(labels[complete]):
        rows = complete & (labels == label)
        Z = raw[rows] - bias[rows]
        yield RowBlock(
            Z[:, 1:], Z[:, 0], None, int(label), smooth[rows], noise[:, rows], share * rows.sum()
        )


def common_draws(count: int) -> np.ndarray:
    """Numbers of mean zero and variance one, by which an error moves all rows together."""
    steps = np.linspace(-1.0, 1.0, count)
    return (steps / steps.std(ddof=1))[:, None, None]


class WeakRowPlan:
    """What has to be integrated against which derivative of the test functions."""

    def __init__(self, data: Dataset, library: CandidateTerms, noisy: bool = False) -> None:
        self.data = data
        vector = solenoidal_field(data)
        self.columns = [
            contributions(term, max(1, data.dim), vector)
            for term in (library.anchor, *library.terms.values())
        ]
        self.families = len(self.columns[0])
        if any(len(column) != self.families for column in self.columns):
            raise InputError(
                "the anchor and all terms of a library must have the same number of components"
            )
        for core in {c.core for column in self.columns for parts in column for c in parts}:
            check_integrand(core, data)
        orders = [c.order for column in self.columns for parts in column for c in parts]
        highest: Order = tuple(max(o[k] for o in orders) for k in range(4))
        check_axes(highest, data)
        self.sampling = sampling_of(data, highest, noisy)
        self.noise = self.sampling.noises
        self.differentiates = any(
            derivative_order(c.core) for column in self.columns for parts in column for c in parts
        )

    @cached_property
    def denoised(self) -> dict[sp.Expr, np.ndarray]:
        """The data without their noise, as far as it can be removed."""
        return self.denoise({name: self.sampling.filled(v) for name, v in self.data.values.items()})

    def evaluate(
        self, values: Mapping[sp.Expr, np.ndarray], exact: bool = False, sampling: Any = None
    ) -> np.ndarray:
        """All rows [y, A] of some values; `exact` ones carry no noise: powers are plain powers."""
        sampling = self.sampling if sampling is None else sampling
        smooth = values if exact or not self.differentiates else self.denoise(values)
        memory: dict[sp.Expr, np.ndarray] = {}
        arrays: dict[sp.Expr, np.ndarray] = {}
        derivatives: dict[sp.Expr, np.ndarray] = {}
        columns = []
        for column in self.columns:
            families = []
            for parts in column:
                total = 0.0
                for part in parts:
                    if part.core not in arrays:
                        arrays[part.core] = self._integrand(
                            part.core, values, smooth, exact, derivatives
                        )
                    total = total + part.coefficient * sampling.integrate(
                        arrays[part.core], part.order, memory, part.core
                    )
                families.append(np.broadcast_to(total, sampling.complete.shape))
            columns.append(np.concatenate(families))
        return np.column_stack(columns)

    def denoise(self, values: Mapping[sp.Expr, np.ndarray]) -> dict[sp.Expr, np.ndarray]:
        """Denoised values of every field."""
        return {name: self.noise[name].remove(v) for name, v in values.items()}

    def _integrand(
        self, core: sp.Expr, values: Mapping, smooth: Mapping, exact: bool, derivatives: dict
    ) -> np.ndarray:
        """Numbers for an integrand: noisy values in Hermite polynomials, derivatives from
        denoised values.
        """
        has_derivatives = derivative_order(core) > 0
        function, names = compiled(core if exact or has_derivatives else hermite(core))
        inputs = []
        for name in names:
            if isinstance(name, sp.Derivative):
                if name not in derivatives:
                    derivatives[name] = self.sampling.differentiate(
                        smooth[name.expr], orders_of(name)
                    )
                inputs.append(derivatives[name])
            elif name in COORDINATES:
                inputs.append(self.sampling.coordinate(name))
            elif isinstance(name, Variance):
                inputs.append(self.noise[name.of].sd ** 2)
            else:
                inputs.append((smooth if has_derivatives else values)[name])
        return np.broadcast_to(np.asarray(function(*inputs), dtype=float), self.data.shape)

    def draws(self) -> np.ndarray:
        """Rows of the denoised data with fresh noise."""
        random = np.random.default_rng(20240229)
        rows = []
        for _ in range(
            WEAK_ROWS.draws if self.noise_ratio > WEAK_ROWS.quiet else WEAK_ROWS.quiet_draws
        ):
            fresh = {
                name: self.noise[name].draw(random, v.shape) for name, v in self.denoised.items()
            }
            rows.append(
                self.evaluate(
                    {
                        name: v + self.sampling.spread(fresh[name])
                        for name, v in self.denoised.items()
                    }
                )
            )
        return np.array(rows)

    def defect(self, smooth: np.ndarray) -> np.ndarray:
        """What sums over few or irregular readings make the rows fail by, as far as the data show
        it.

        It does not average out over the rows, so every draw of the noise moves all of them
        together, and the intervals see by how much that moves a coefficient.
        """
        failing = self.sampling.failing
        if failing is None:
            return np.zeros_like(smooth)
        again = self.denoise({name: failing.filled(v) for name, v in self.data.values.items()})
        return self.evaluate(again, exact=True, sampling=failing) - smooth

    @cached_property
    def noise_ratio(self) -> float:
        """Largest noise level of a field relative to its signal."""
        return noise_ratio(
            self.noise, {name: self.sampling.filled(v) for name, v in self.data.values.items()}
        )

    def notes(self) -> dict[str, object]:
        """What the rows are made with."""
        values = {name: self.sampling.filled(v) for name, v in self.data.values.items()}
        return {**noise_notes(self.sampling, values), **self.sampling.notes}


def noise_notes(sampling: Any, values: Mapping[sp.Expr, np.ndarray]) -> dict[str, object]:
    """How strong the noise of every field is, and over how many points it is correlated."""
    return {
        "noise_sd": {str(n): m.sd for n, m in sampling.noises.items()},
        "noise_ratio": noise_ratio(sampling.noises, values),
        "correlation_lengths": {
            str(n): m.correlation_lengths for n, m in sampling.noises.items() if not m.white
        },
    }


def sampling_of(data: Dataset, orders: Order, noisy: bool) -> Any:
    """The way to integrate that fits the layout of the data."""
    return GridSampling(data, orders, noisy) if data.points is None else PointSampling(data, orders)


def solenoidal_field(data: Dataset) -> VectorField | None:
    """The divergence-free field of projected data."""
    if not data.projected:
        return None
    vectors = {c.field for c in data.values if isinstance(c, Component)}
    if len(vectors) != 1:
        raise InputError("projected data need exactly one vector field, whose divergence vanishes")
    return vectors.pop()
