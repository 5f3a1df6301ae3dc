# SPDX-License-Identifier: MIT
"""The kinds of guaranteed certificates: what a certifier offers, and which problems each covers.

A certifier is made for one model and bounds the errors of its solutions and deletions. Each kind
says by itself which models it covers; where the hypotheses of its theorem fail on a covered model,
making it raises `NotCovered` with the reason. Others are added with `cffem.extend.add_certifier`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cffem.bounds.certificate import Certificate, DeletionBound, NotCovered
from cffem.bounds.elliptic.steady_bounds import SteadyCertifier
from cffem.bounds.evolving.evolving_bounds import VariableParabolicCertifier, flux_price
from cffem.bounds.flow.stokes_bounds import StokesCertifier, flow_price, is_flow
from cffem.bounds.parabolic.enriched import EnrichedCertifier
from cffem.bounds.parabolic.parabolic_bounds import ParabolicCertifier
from cffem.bounds.scalar_problem import check_formulas, only_unknown
from cffem.bounds.variable.variable_bounds import VariableSteadyCertifier
from cffem.bounds.waves.maxwell import MaxwellCertifier
from cffem.bounds.waves.scalar_waves import WaveCertifier
from cffem.bounds.waves.wave_enriched import EnrichedSecondOrderCertifier
from cffem.symbols.fields import ScalarField
from cffem.symbols.registry import Registry

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


class Asked(Protocol):
    """What is asked of error bars: the attributes of a `Certification`."""

    @property
    def norm(self) -> str:
        """The norm of scores."""

    @property
    def enriched(self) -> bool:
        """Whether richer spaces may be solved on for better bars."""

    @property
    def budget(self) -> float | None:
        """The largest cost of levels, in unknowns times steps."""

    @property
    def effort(self) -> float:
        """What all bars may cost, in units of the study."""

    @property
    def largest(self) -> float:
        """The largest level that is solved on."""

    def threshold(self, size: float) -> float:
        """The absolute tolerance for a solution of this size."""

    def uncertainty(self, error: float) -> float:
        """How far the tolerance may be off for a solution with this error."""


class Certifier(Protocol):
    """Error bounds for the solutions of one model."""

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The bound of ‖u − u_h‖ of a solution of the model."""

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound of |δ_j − δ_jh| of a deletion."""

    def destroy(self) -> None:
        """Free what was made for the model; collective."""


@dataclass(frozen=True)
class CertifierKind:
    """One class of guaranteed certificates.

    Attributes:
        covers: whether a model belongs to the class.
        make: a certifier of a model; raises `NotCovered` where a hypothesis fails.
        enriched: whether it solves the problem again with one degree more.
        price: what the bars of all deletions of a model cost, in units of the study: of the factual
            solve with all of its deletions; None where that is little.
    """

    covers: Callable[[Model], bool]
    make: Callable[[Model], Certifier]
    enriched: bool = False
    price: Callable[[Model], float] | None = None


CERTIFIERS: Registry[CertifierKind] = Registry("certifier")


def add_certifier(
    name: str,
    covers: Callable[[Model], bool],
    make: Callable[[Model], Certifier],
    enriched: bool = False,
    price: Callable[[Model], float] | None = None,
) -> CertifierKind:
    """Make a kind of certificates known; it is asked before those that are there."""
    return CERTIFIERS.add(name, CertifierKind(covers, make, enriched, price))


def _steady(model: Model) -> bool:
    only_unknown(model.library)
    return model.experiment.time is None


def _second_order(model: Model) -> bool:
    second = not _steady(model) and model.library.time_order == 2
    if second:
        check_formulas(model)
    return second


def _first_order(model: Model) -> bool:
    return not _steady(model) and model.library.time_order != 2


def _scalar(model: Model) -> bool:
    return isinstance(only_unknown(model.library), ScalarField)


def _either(
    model: Model, plain: Callable[[Model], Certifier], general: Callable[[Model], Certifier]
) -> Certifier:
    """With constant coefficients and given values bounds are sharper and cheaper."""
    try:
        check_formulas(model)
        return plain(model)
    except NotCovered as first:
        try:
            return general(model)
        except NotCovered as second:
            same = str(first) == str(second)
            raise NotCovered(str(first) if same else f"{first}; {second}") from None


def _steady_certifier(model: Model) -> Certifier:
    return _either(model, SteadyCertifier, VariableSteadyCertifier)


def _parabolic_certifier(model: Model) -> Certifier:
    return _either(model, ParabolicCertifier, VariableParabolicCertifier)


def _parabolic_price(model: Model) -> float:
    """Constant coefficients share one factorisation for all fluxes, others have none to share."""
    try:
        check_formulas(model)
        ParabolicCertifier.check(model)
    except NotCovered:
        return flux_price(model)
    return 0.0


def _enriched(model: Model) -> Certifier:
    check_formulas(model)
    return EnrichedCertifier(model)


add_certifier("steady", _steady, _steady_certifier)
add_certifier("stokes", lambda m: _steady(m) and is_flow(m), StokesCertifier, price=flow_price)
add_certifier("parabolic", _first_order, _parabolic_certifier, price=_parabolic_price)
add_certifier("wave", lambda m: _second_order(m) and _scalar(m), WaveCertifier)
add_certifier("maxwell", lambda m: _second_order(m) and not _scalar(m), MaxwellCertifier)
add_certifier("steady, enriched", _steady, _enriched, enriched=True)
add_certifier("parabolic, enriched", _first_order, _enriched, enriched=True)
add_certifier("second order, enriched", _second_order, EnrichedSecondOrderCertifier, enriched=True)
