# SPDX-License-Identifier: MIT
"""The section scope: the tuple (Γ, 𝓔, 𝒪, norm, ε) that every verdict refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cffem.study.run.measured_fields import measures
from cffem.study.run.sections.findings import Facts
from cffem.study.run.sections.judgements import Judgements
from cffem.study.run.stations.deleting import REFITTED
from cffem.symbols.problem.interventions import KEPT
from cffem.symbols.problem.known_values import known_text

if TYPE_CHECKING:
    from basix.ufl import _ElementBase

    from cffem.engine.mesh.meshes import MeshData

RULE = "relevant if relevant in one experiment, irrelevant only if irrelevant in all"


class ScopeSection:
    """What every verdict refers to.

    Args:
        judged: the verdicts.
    """

    def __init__(self, judged: Judgements):
        self.judged, self.run, self.study = judged, judged.run, judged.study
        self.found, self.names = judged.found, judged.names

    def section(self) -> Facts:
        """What the section holds."""
        certification = self.study.certification
        experiments = {name: self._experiment(name) for name in self.run.experiments}
        first = next(iter(experiments))
        unknowns = self.study.library.unknowns
        measured = [
            u for u in unknowns if any(measures(data, u) for data in self.study.data.values())
        ]
        fields = ", ".join(map(str, measured or unknowns))
        observation = self.judged.sensors.observation_text() or (
            f"measured values of {fields}" if self.study.data else f"full observation of {fields}"
        )
        relative = (
            f"{certification.epsilon:.3g}·‖u_h‖"
            if certification.relative
            else f"{certification.epsilon:.3g}"
        )
        absolute = self.judged.threshold(first)
        epsilon = f"{absolute:.3g}" if len(experiments) == 1 and absolute is not None else relative
        if self.study.fields:
            each = "each field's own norm" if certification.relative else "each field"
            epsilon = (
                f"{certification.epsilon:.3g} of {each}"
                if certification.relative
                else f"{relative} for {each}"
            )
        which = (
            f"this experiment {self._when(first)}"
            if len(experiments) == 1
            else f"these {len(experiments)} experiments ({RULE})"
        )
        refit = (
            "with the other coefficients refitted"
            if self.judged.headline == REFITTED
            else "without refitting the other coefficients"
        )
        if certification.conditions == KEPT:
            refit += (
                ", and with all essential conditions kept, also those that a deleted equation "
                "cannot carry"
            )
        return {
            "library": {name: str(self.study.library[name]) for name in self.names},
            "anchor": {
                str(u): str(0 if equation.anchor is None else equation.anchor)
                for u, equation in self.study.library.equations.items()
            },
            "experiment": experiments[first],
            "experiments": experiments,
            "combination": RULE,
            "observation": observation,
            "norm": certification.norm,
            "epsilon": self.judged.threshold(first),
            "relative": certification.relative,
            "factual_norm": self.found.factual[first].norm,
            "intervention": "deletion",
            "interventions": list(self.found.deletions),
            "refit": self.study.refit,
            "coefficients": "estimated from data" if self.judged.estimated else "given",
            **({} if self.study.units is None else {"units": self.study.units.to_dict()}),
            "fit": {"kind": self.study.fit_choice.kind, "why": self.study.fit_choice.why},
            "sentence": (
                f"Each verdict holds for the library {{{', '.join(self.names)}}}, {which}, "
                f"{observation}, the norm "
                f"{certification.norm} and ε = {epsilon}; deletion {refit}. "
                f"{self._domain()}{self._notes()}"
            ),
        }

    def _domain(self) -> str:
        """What the domain of the verdicts is; a curve that the mesh was made from may be
        another one.
        """
        domains = {domain_text(model.discretisation.domain) for model in self.run.models.values()}
        return f"The domain Ω is {' or '.join(sorted(domains))}." if domains else ""

    def _notes(self) -> str:
        """What was changed or chosen in the models, as sentences."""
        notes = dict.fromkeys(note for fact in self.found.factual.values() for note in fact.notes)
        return "".join(f" Note: {note}." for note in notes)

    def _when(self, name: str) -> str:
        window = self.run.experiments[name].time
        return (
            "steady" if window is None else f"on the time window ({window.start:g}, {window.end:g})"
        )

    def _experiment(self, name: str) -> Facts:
        experiment = self.run.experiments[name]
        window = experiment.time
        return {
            "window": None
            if window is None
            else [float(window.start), float(window.end), int(window.steps)],
            "boundary": [str(condition) for condition in experiment.boundary],
            "initial": {str(key): str(value) for key, value in experiment.initial.items()},
            "forcing": {str(key): str(value) for key, value in experiment.forcing.items()},
            "known": {str(key): known_text(value) for key, value in experiment.known.items()},
            "elements": {
                str(key): element_text(value) for key, value in experiment.elements.items()
            },
            "factual_norm": self.found.factual[name].norm,
            "epsilon": self.judged.threshold(name),
            "notes": list(self.found.factual[name].notes),
        }


def domain_text(domain: MeshData) -> str:
    """What kind of set a mesh, given with its names, stands for.

    Example:
        >>> from mpi4py import MPI
        >>> import cffem as cf
        >>> domain_text(cf.mesh.square(MPI.COMM_SELF, 0.5))
        'the meshed polygon'
    """
    from cffem._compat import cell_geometry

    mesh = domain.mesh
    kinds = {1: "interval", 2: "polygon", 3: "polyhedron"}
    if mesh.geometry.dim != mesh.topology.dim:
        return "the meshed curve or surface"
    if cell_geometry(mesh)[1] > 1:
        return "what the curved cells of the mesh fill"
    if domain.curved is not None:
        kind = kinds[mesh.topology.dim]
        return (
            "bounded by the curves that the mesh was made from, and error bars contain its gap "
            f"to the meshed {kind}"
        )
    return f"the meshed {kinds[mesh.topology.dim]}"


def element_text(element: _ElementBase) -> str:
    """An element as people write it.

    Example:
        >>> element_text(("Lagrange", 2))
        'Lagrange, degree 2'
    """
    return (
        f"{element[0]}, degree {element[1]}"
        if isinstance(element, tuple) and len(element) == 2
        else str(element)
    )
