# SPDX-License-Identifier: MIT
"""The table of Leray-projected flow: which terms the pressure takes up, exactly or in the limit of
fine meshes.

A flow is solved on a Taylor–Hood pair (steady Navier–Stokes past a cylinder or in a driven cavity)
and brought onto the class of each pair of elements. An equation that is tested against
divergence-free fields w does not see gradients, because (∇φ, w) = −(φ, div w) + ∫ φ w·n. With p in
the multiplier space this is zero to round-off on every pair. For other φ, and for the two
equivalences lap v ≡ −curl curl v and (v·∇)v ≡ (∇×v)×v, it is zero to round-off where div w = 0
pointwise (RT, BDM), and decays with the mesh size on Taylor–Hood pairs. At an open boundary the
facet term is left, so ∇φ is null only if φ = 0 there.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import x, y
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import curl, div, dot, dt, grad, lap, vector

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from mpi4py import MPI

    from cffem.engine.model import Model
    from cffem.symbols.problem.conditions import BoundaryCondition


v, p = VectorField("v", dim=2), ScalarField("p")
PAIRS = {
    "Taylor–Hood": (("Lagrange", 2), ("Lagrange", 1)),
    "RT": (("RT", 2), ("DG", 1)),
    "BDM": (("BDM", 1), ("DG", 0)),
}
LENGTH, HEIGHT = sp.Rational(11, 5), sp.Rational(41, 100)
KINETIC = dot(v, v) / 2
TERMS = {
    "viscosity": lap(v),
    "convection": dot(grad(v), v),
    "∇p": grad(p),
    "∇½|v|²": grad(KINETIC),
    "rotation": curl(curl(v)),
    "lamb": curl(v) * vector(-v[1], v[0]),
    "(div v) v": div(v) * v,
}
# φ = 0 at the outlet x = LENGTH.
FADING = {"∇½(L−x)|v|²": grad((LENGTH - x) * KINETIC)}
GRADIENTS = ("∇p", "∇½|v|²", "∇½(L−x)|v|²")
EQUIVALENT = {
    "lap v ≡ −curl curl v": ("rotation", {"viscosity": sp.S.NegativeOne}),
    "(v·∇)v ≡ (∇×v)×v": ("lamb", {"convection": sp.S.One}),
}
OPEN_EQUIVALENT = {
    "(v·∇)v ≡ (∇×v)×v": ("lamb", {"convection": sp.S.One, "∇½|v|²": sp.S.NegativeOne})
}
ACTIVE = ("viscosity", "convection")


@dataclass(frozen=True)
class Case:
    """A plane flow: its mesh, essential values, whether a boundary part is open, and the
    viscosity.
    """

    shape: str
    given: Mapping[str, tuple[Any, Any]]
    open: str | None
    viscosity: float


CASES = {
    # Reynolds number 20 with the cylinder's diameter 0.1 and the mean inflow 0.2.
    "cylinder": Case(
        "channel",
        {
            "inlet": (sp.Rational(6, 5) * y * (HEIGHT - y) / HEIGHT**2, 0),
            "walls": (0, 0),
            "cylinder": (0, 0),
        },
        "outlet",
        1e-3,
    ),
    # The lid is at rest at its ends, so that the flow is smooth.
    "cavity": Case(
        "square",
        {"top": (16 * x**2 * (1 - x) ** 2, 0), "left": (0, 0), "right": (0, 0), "bottom": (0, 0)},
        None,
        1e-2,
    ),
}


def leray_column(case: str, pair: str, h: float, comm: MPI.Comm) -> dict[str, float]:
    """Shares of the terms that divergence-free test functions see, and relative differences of the
    equivalences.

    Args:
        case: "cylinder" or "cavity".
        pair: "Taylor–Hood", "RT" or "BDM".
        h: the mesh size.
        comm: the communicator.

    Example:
        >>> from mpi4py import MPI
        >>> column = leray_column("cavity", "BDM", 0.3, MPI.COMM_SELF)
        >>> column["∇½|v|²"] < 1e-12 < 0.1 < column["convection"]
        True
    """
    from cffem.constraints.effective import difference_on
    from cffem.constraints.nulls import ConstraintAnalysis
    from cffem.engine.mesh import mesh_shapes

    flow = CASES[case]
    mesh = getattr(mesh_shapes, flow.shape)(comm, h)
    terms = TERMS if flow.open is None else {**TERMS, **FADING}
    model = flow_model(case, pair, mesh, terms)
    analysis = ConstraintAnalysis(model, trajectory=False)
    state = flow_on(case, mesh, model, analysis.projection)
    # Walls and inlet move: their tangential velocities are in the weak curl.
    member = analysis.evaluation.completed(state, 0.0), state, None
    column = {
        name: analysis.share(name, member)
        for name in (*ACTIVE, *GRADIENTS)
        if name in terms and name != "∇p"
    }
    column["∇p"] = max(analysis.share("∇p", members) for _, members in analysis.samples)
    column["(div v) v"] = vanishing_share(analysis, "(div v) v", member)
    equivalences = EQUIVALENT if flow.open is None else {**EQUIVALENT, **OPEN_EQUIVALENT}
    column |= {
        text: difference_on(analysis, *relation, member) for text, relation in equivalences.items()
    }
    analysis.destroy()
    return column


def flow_model(
    case: str, pair: str, mesh: Mesh, terms: Mapping[str, sp.Expr], steady: bool = False
) -> Model:
    """A model of the flow on one pair of elements; the velocity has its natural condition at
    an open boundary.
    """
    from cffem.engine.model import Model
    from cffem.symbols.problem.conditions import Dirichlet, Neumann, Tangential
    from cffem.symbols.problem.constraint_classes import DivergenceFree
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.window import Window

    flow, (velocity, pressure) = CASES[case], PAIRS[pair]
    boundary: list[BoundaryCondition] = [
        Dirichlet(v, value, on=part) for part, value in flow.given.items()
    ]
    if pair != "Taylor–Hood":
        # There Dirichlet gives normal components only.
        boundary += [Tangential(v, value, on=part) for part, value in flow.given.items()]
    if flow.open is not None:
        boundary.append(Neumann(v, 0, on=flow.open))
    experiment = Experiment(
        mesh=mesh,
        elements={v: velocity},
        boundary=tuple(boundary),
        initial={} if steady else {v: (0, 0)},
        time=None if steady else Window(0, 1, steps=1),
        constraint=DivergenceFree(v, multiplier={p: pressure}),
    )
    library = Library(terms=terms, unknown=v) if steady else Library(anchor=dt(v), terms=terms)
    coefficients = (
        {"viscosity": flow.viscosity, "convection": -1.0}
        if steady
        else {"viscosity": flow.viscosity}
    )
    return Model(library, coefficients, experiment)


def flow_on(case: str, mesh: Mesh, model: Model, projection: Any) -> np.ndarray:
    """The steady flow, solved on a Taylor–Hood pair and projected onto the class of the model."""
    steady = flow_model(
        case, "Taylor–Hood", mesh, {name: TERMS[name] for name in ACTIVE}, steady=True
    )
    function = projection.function()
    function.interpolate(steady.solve().function(v))
    state = projection.state_of(function)
    model.essential.set_values(state, 0.0)
    return projection.project(state)


def vanishing_share(analysis: Any, name: str, member: tuple[Any, ...]) -> float:
    """‖T[u]‖ of a term that is zero on the class, against ‖T[w]‖ of a random field w with ‖w‖
    = ‖u‖.
    """
    evaluation = analysis.evaluation
    size = evaluation.norm(member[0])
    random = analysis.samples[0][0][0]
    random = random * (size / evaluation.norm(random))
    whole = evaluation.dual_norm(evaluation.functional(name, (random, random, None)))
    return evaluation.dual_norm(evaluation.functional(name, member)) / whole


def main(arguments: Sequence[str]) -> int:
    """Print the table on a sequence of meshes."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(
        prog="cffem bench leray", description="terms of plane flow under the Leray projection"
    )
    parser.add_argument("--case", choices=[*CASES], action="append", help="default: both")
    parser.add_argument("--pair", choices=[*PAIRS], action="append", help="default: all")
    parser.add_argument(
        "--levels",
        type=int,
        default=3,
        help="meshes, each half as coarse as the one before (default: 3)",
    )
    options = parser.parse_args(arguments)
    for case in options.case or CASES:
        for pair in options.pair or PAIRS:
            sizes = [0.2 / 2**level for level in range(options.levels)]
            columns = [leray_column(case, pair, h, MPI.COMM_WORLD) for h in sizes]
            if MPI.COMM_WORLD.rank == 0:
                print(f"{case}, {pair}: h = " + ", ".join(f"{h:g}" for h in sizes))
                for name in columns[0]:
                    values = [column[name] for column in columns]
                    order = (
                        np.log2(values[-2] / values[-1])
                        if len(values) > 1 and values[-1] > 1e-12
                        else float("nan")
                    )
                    print(
                        f"  {name:<24}"
                        + "".join(f"{value:12.2e}" for value in values)
                        + f"   order {order:5.2f}"
                    )
    return 0
