# SPDX-License-Identifier: MIT
"""Skill: how much better the selected terms predict the anchor on rows that were left out than its
mean does.

Each block of rows is predicted with coefficients from all other blocks; block Grams of [y, A] are
enough for that. The mean predictor is the constant term alone, fitted on the same rows; without a
constant among the terms it is zero. As in the paper, skill = 1 − RMSE / RMSE of the mean predictor:
one for a perfect prediction, zero or less for a useless one.

A smooth field without any equation has some skill, too. So skill stands beside its distribution on
surrogates of the data: the spectrum in space and the spectrum in time are kept, phases are random.
The joint spectrum becomes the product of the two, because a linear equation is nothing but its
dispersion relation, which random phases alone would leave in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from sklearn.base import clone

from cffem.design.design import Design
from cffem.screening.resampling import solve_support
from cffem.symbols.errors import InputError


@dataclass(frozen=True)
class Skill:
    """How well held-out rows are predicted.

    Attributes:
        rmse: root mean square error of the selected terms, relative to the root mean square of the
            anchor.
        baseline: that of the mean predictor.
        blocks: number of blocks, each predicted from the others.
    """

    rmse: float
    baseline: float
    blocks: int

    @property
    def value(self) -> float:
        """1 − RMSE / RMSE of the mean predictor."""
        return 1.0 - self.rmse / self.baseline if self.baseline else 0.0


def held_out_skill(design: Design, support: Sequence[str]) -> Skill:
    """Skill of a support on rows that its coefficients have not seen.

    Args:
        design: the design.
        support: names of the selected terms; with none the mean is all there is, and the skill is
            zero.

    Example:
        >>> random = np.random.default_rng(0)
        >>> A = np.column_stack([np.ones(400), random.standard_normal((400, 2))])
        >>> design = Design.from_matrix(
        ...     A, A @ [1.0, 2.0, 0.0] + 0.1 * random.standard_normal(400), ["1", "a", "b"]
        ... )
        >>> skill = held_out_skill(design, ["1", "a"])
        >>> 0.9 < skill.value < 1.0, abs(held_out_skill(design, ["1", "b"]).value) < 0.1
        (True, True)
    """
    blocks = design.grams.plain
    constant = constant_column(design)
    mean = [] if constant is None else [constant]
    chosen = [design.names.index(name) for name in support] or mean
    energy = float(blocks[:, 0, 0].sum())
    if not energy:
        return Skill(0.0, 0.0, len(blocks))
    errors = [
        np.sqrt(max(held_out_error(blocks, columns), 0.0) / energy) for columns in (chosen, mean)
    ]
    return Skill(float(errors[0]), float(errors[1]), len(blocks))


def held_out_error(blocks: np.ndarray, columns: Sequence[int]) -> float:
    """Sum of squared errors over all blocks, each predicted with coefficients from the others."""
    if not len(columns):
        return float(blocks[:, 0, 0].sum())
    coefficients = (
        solve_support(blocks.sum(axis=0) - blocks, columns)
        if len(blocks) > 1
        else solve_support(blocks, columns)
    )
    vectors = np.zeros((len(blocks), blocks.shape[1]))
    vectors[:, 0] = 1.0
    vectors[:, np.asarray(columns) + 1] = -coefficients
    return float(np.einsum("bi,bij,bj->", vectors, blocks, vectors))


def constant_column(design: Design) -> int | None:
    """The column of the term that is a number, by the library or by its name."""
    terms = {} if design.library is None else design.library.terms
    for index, name in enumerate(design.names):
        term = terms.get(name)
        if (term is not None and sp.sympify(term).is_number) or (
            term is None and name in ("1", "one", "constant")
        ):
            return index
    return None


@dataclass(frozen=True)
class NullSkill:
    """Skill on the data and on surrogates that follow no equation.

    Attributes:
        skill: of the support that was found on the data.
        surrogates: skill of the support that the same screen finds on each surrogate.
    """

    skill: float
    surrogates: tuple[float, ...]

    @property
    def p_value(self) -> float:
        """Share of surrogates with at least this skill, the data counted among them."""
        return (1 + sum(value >= self.skill for value in self.surrogates)) / (
            1 + len(self.surrogates)
        )


def null_skill(screen: Any, surrogates: int) -> NullSkill:
    """Skill of a fitted screen beside that of the same screen on surrogates of its data.

    Args:
        screen: a fitted `Screening`.
        surrogates: their number; 19 can show a level of 5 %.
    """
    origin = screen.design_.origin
    if origin is None or not all(
        hasattr(source, "values") and source.points is None for source in origin.sources
    ):
        raise InputError(
            "a null-calibrated skill needs a screen of gridded data, from which surrogates can be "
            "made"
        )
    found = []
    for number in range(surrogates):
        again = [surrogate(source, 1000 * number + k) for k, source in enumerate(origin.sources)]
        design = Design.from_fields(origin.library, again, origin.kind)
        fitted = clone(screen).fit(design)
        found.append(held_out_skill(design, fitted.names_).value)
    return NullSkill(held_out_skill(screen.design_, screen.names_).value, tuple(found))


def surrogate(data: Any, seed: int) -> Any:
    """Gridded data with the spectra in space and in time of each field, and nothing else of it.

    Example:
        >>> from cffem.data import Dataset
        >>> from cffem.symbols.coordinates import t, x
        >>> from cffem.symbols.fields import ScalarField
        >>> u = ScalarField("u")
        >>> wave = np.sin(np.arange(16)[:, None] - np.arange(8.0))
        >>> data = Dataset.from_arrays({x: np.arange(16.0), t: np.arange(8.0)}, {u: wave})
        >>> other = surrogate(data, 0).values[u]
        >>> bool(abs(other.std() - wave.std()) < 1e-9), bool(np.allclose(other, wave))
        (True, False)
    """
    random = np.random.default_rng(seed)
    values = {}
    for name, array in data.values.items():
        filled = (
            array if data.mask is None else np.where(data.mask, array[~data.mask].mean(), array)
        )
        mean = float(filled.mean())
        power = np.abs(np.fft.fftn(filled - mean)) ** 2
        joint = power.sum(axis=-1, keepdims=True) * power.sum(
            axis=tuple(range(power.ndim - 1)), keepdims=True
        )
        phases = np.fft.fftn(random.standard_normal(array.shape))
        modes = np.sqrt(joint / max(power.sum(), 1e-300)) * phases / np.abs(phases)
        found = np.fft.ifftn(modes).real
        found *= filled.std() / max(found.std(), 1e-300)
        values[name] = mean + found - found.mean()
    return replace(data, values=values, notes={})
