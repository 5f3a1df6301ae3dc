# SPDX-License-Identifier: MIT
"""Random problems for the estimated error bars of `cffem bench certify`, with much finer solutions
to compare them with.

They are nonlinear, have varying coefficients, or are Maxwell's equations on edge elements of first
order.

The reference is solved on a mesh that is refined once, with two degrees more and an eighth of the
time step; being of the same family it contains the space of the problem, so that errors are
computed exactly.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_modal import perturbed, u
from cffem.bounds.levels.compared import gram_matrix, grids, raised_states
from cffem.bounds.levels.ladders import raised_constraint, raised_elements, refined_domain
from cffem.bounds.levels.prolongation import prolongation
from cffem.symbols import x, y, z

KINDS = ("Allen–Cahn", "Burgers", "steady", "variable", "Maxwell", "Navier–Stokes")
# Those of which there are fewest, because they cost most.
COSTLY = ("Maxwell", "Navier–Stokes")
FASTER = 8


def nonlinear_case(kind: str, random: Any) -> tuple[Any, str]:
    """A random model and the term that is deleted from it."""
    if kind == "Maxwell":
        return _cavity(random)
    domain = perturbed(
        2, int(random.integers(3, 6)), float(random.uniform(0, 0.2)), float(random.uniform(0, 6))
    )
    start = sum(
        float(random.uniform(-1, 1)) * sp.sin(i * sp.pi * x) * sp.sin(j * sp.pi * y)
        for i, j in ((1, 1), (2, 1), (1, 2))
    ) + sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    window = cf.Window(0, float(random.uniform(0.1, 0.5)), int(random.integers(4, 9)))
    diffusion = float(10 ** random.uniform(-1.5, -0.3))
    if kind == "Navier–Stokes":
        return _flow(diffusion, window, random)
    chosen: dict[str, Any] = {"boundary": [cf.Dirichlet(u, 0)]}
    if kind == "steady":
        library = cf.Library(
            terms={"lap": cf.lap(u), "cube": -(u**3), "drift": -u * u.diff(x)}, unknown=u
        )
        chosen["forcing"] = {u: 20 * diffusion * start}
        coefficients = {
            "lap": diffusion,
            "cube": float(random.uniform(0.1, 3)),
            "drift": float(random.uniform(0.05, 0.5)),
        }
    elif kind == "variable":
        # The diffusivity stays between 1 and 3.
        varying = cf.div((2 + sp.sin(3 * x + y)) * cf.grad(u))
        library = cf.Library(
            anchor=cf.dt(u), terms={"lap": varying, "cube": -(u**3), "drift": -x * u.diff(y)}
        )
        coefficients = {
            "lap": diffusion,
            "cube": float(random.uniform(0.1, 3)),
            "drift": float(random.uniform(0.1, 1)),
        }
    elif kind == "Burgers":
        library = cf.Library(
            anchor=cf.dt(u),
            terms={"lap": cf.lap(u), "drift": -u * u.diff(x), "cube": -u * u.diff(y)},
        )
        coefficients = {
            "lap": diffusion,
            "drift": float(random.uniform(0.1, 1)),
            "cube": float(random.uniform(0.01, 0.5)),
        }
    else:
        library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "drift": u, "cube": -(u**3)})
        chosen["forcing"] = {u: sp.cos(3 * cf.t) * start}
        coefficients = {
            "lap": diffusion,
            "drift": float(random.uniform(0.1, 4)),
            "cube": float(random.uniform(0.1, 4)),
        }
    if kind != "steady":
        chosen |= {"initial": {u: start}, "time": window}
    experiment = cf.Experiment(mesh=domain, elements={u: ("Lagrange", 1)}, **chosen)
    return cf.Model(library, coefficients, experiment), str(random.choice(["drift", "cube"]))


def _flow(viscosity: float, window: Any, random: Any) -> tuple[Any, str]:
    v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
    stream = (1 + random.uniform(0, 1) * x) * sp.sin(sp.pi * x) ** 2 * sp.sin(sp.pi * y) ** 2 / 3
    library = cf.Library(
        anchor=cf.dt(v), terms={"lap": cf.lap(v), "inertia": -cf.dot(v, cf.grad(v)), "drag": -v}
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_SELF, 3, 3),
        elements={v: ("Lagrange", 2)},
        initial={v: (stream.diff(y), -stream.diff(x))},
        boundary=[cf.Dirichlet(v, (0, 0))],
        time=dataclasses.replace(window, steps=4),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    coefficients = {
        "lap": max(viscosity, 0.1),
        "inertia": 1.0,
        "drag": float(random.uniform(0.1, 2)),
    }
    return cf.Model(library, coefficients, experiment), str(random.choice(["inertia", "drag"]))


def _cavity(random: Any) -> tuple[Any, str]:
    e = cf.VectorField("E", dim=3)
    one, two, three = (int(random.integers(1, 3)) for _ in range(3))
    start = (
        sp.sin(one * sp.pi * y) * sp.sin(two * sp.pi * z),
        float(random.uniform(-1, 1)) * sp.sin(three * sp.pi * z) * sp.sin(sp.pi * x),
        float(random.uniform(-1, 1)) * sp.sin(sp.pi * x) * sp.sin(sp.pi * y),
    )
    terms = {"stiffness": -cf.curl(cf.curl(e)), "mass": -e, "graded": -x * e, "damping": -cf.dt(e)}
    experiment = cf.Experiment(
        mesh=mesh.create_unit_cube(MPI.COMM_SELF, 2, 2, 2),
        elements={e: ("N1curl", 1)},
        initial={e: start, cf.dt(e): (0, 0, 0)},
        boundary=[cf.Tangential(e, (0, 0, 0))],
        time=cf.Window(0, float(random.uniform(0.4, 1.2)), int(random.integers(4, 9))),
    )
    coefficients = {name: float(10 ** random.uniform(-1.5, 0.3)) for name in terms}
    model = cf.Model(
        cf.Library(anchor=cf.dt(cf.dt(e)), terms=terms, unknown=e), coefficients, experiment
    )
    return model, str(random.choice(list(terms)))


@dataclasses.dataclass(frozen=True)
class Reference:
    """True errors of one deletion, by a much finer solution.

    Attributes:
        factual, counterfactual, difference: errors of u_h, u_jh and u_h − u_jh.
        score: the true score.
    """

    factual: float
    counterfactual: float
    difference: float
    score: float


def reference(model: Any, name: str, deleted: Any) -> Reference:
    """Solve the much finer problem and measure."""
    start = model.experiment
    domain, parents = refined_domain(model.discretisation.domain)
    changes: dict[str, Any] = {"mesh": domain, "elements": raised_elements(start, 2)}
    changes["constraint"] = raised_constraint(start.constraint, 2)
    if start.time is not None:
        changes["time"] = dataclasses.replace(
            start.time, steps=start.time.steps * FASTER, scheme=None
        )
    with cf.Model(
        model.library, model.coefficients, dataclasses.replace(start, **changes)
    ) as finer:
        unknowns = model.discretisation.unknowns
        maps = {
            f: prolongation(model.spaces.own(f)[0], finer.spaces.own(f)[0], parents)
            for f in unknowns
        }
        coarse = [
            raised_states(s.states, model.spaces, finer.spaces, maps)
            for s in (model.factual, deleted)
        ]
        fine = [solution.states for solution in (finer.factual, finer.solve(cf.delete(name)))]
        fields = [
            [(fine[0], 1.0), (coarse[0], -1.0)],
            [(fine[1], 1.0), (coarse[1], -1.0)],
            [(fine[0], 1.0), (fine[1], -1.0), (coarse[0], -1.0), (coarse[1], 1.0)],
            [(fine[0], 1.0), (fine[1], -1.0)],
        ]
        squares = gram_matrix(finer.norm("L2"), fields, grids([model, finer])).diagonal()
    return Reference(*(math.sqrt(max(value, 0.0)) for value in squares))
