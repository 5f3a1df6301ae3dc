# SPDX-License-Identifier: MIT
"""Which projection belongs to a constraint: chosen by the constraint and the element of its field.

Nédélec fields that are divergence-free or curl-free have the discrete gradient; a zero mean needs
no solve; everything else goes through the saddle-point problem with the multiplier space that the
constraint states or the engine knows to be stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.constraints.projections.base import MeanProjection, Projection
from cffem.constraints.projections.helmholtz import CurlFreeProjection, HelmholtzProjection
from cffem.constraints.projections.saddle import SaddleProjection
from cffem.engine.assembly.dirichlet import EssentialConditions
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.spaces import basix_element
from cffem.forms.elements import HCURL, before, carrier
from cffem.forms.lowering import Lowering
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.problem.constraint_classes import Constraint, CurlFree, DivergenceFree, ZeroMean
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.library import Library
from cffem.symbols.problem.system import System
from cffem.symbols.registry import Registry

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx.mesh import Mesh

    from cffem.engine.model import Model
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.conditions import BoundaryCondition


@dataclass(frozen=True)
class ProjectionKind:
    """A way to project onto constraint classes.

    Attributes:
        covers: whether it is the one for a constraint on a discretisation.
        make: the projection, of constraint, discretisation, essential conditions and PETSc options.
    """

    covers: Callable[[Constraint, Discretisation], bool]
    make: Callable[..., Projection]


PROJECTIONS: Registry[ProjectionKind] = Registry("projection")


def add_projection(
    name: str,
    covers: Callable[[Constraint, Discretisation], bool],
    make: Callable[..., Projection],
) -> ProjectionKind:
    """Make a projection known; it is asked before those of the package."""
    return PROJECTIONS.add(name, ProjectionKind(covers, make))


def projection(
    constraint: Constraint,
    mesh: Mesh,
    elements: Mapping[Field, _ElementBase],
    boundary: Sequence[BoundaryCondition] = (),
    options: PetscOptions | None = None,
) -> Projection:
    """The orthogonal projection onto a constraint class on a mesh, without a model.

    Args:
        constraint: `DivergenceFree`, `CurlFree`, `ZeroMean` or any `Constraint(expr, multiplier={q:
            element})`.
        mesh: a path, a DOLFINx mesh, or what `cffem.mesh` makes.
        elements: the elements of the constrained fields.
        boundary: essential conditions; where none is given the boundary is natural (open).
        options: PETSc options of the solver; None is the default of the projection, `{}` a direct
            solve, `KRYLOV_SADDLE` of `cffem.constraints.projections.saddle` an iterative one.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_cube
        >>> from cffem.constraints.projections.choose import projection
        >>> E = cf.VectorField("E", dim=3)
        >>> P = projection(
        ...     cf.DivergenceFree(E),
        ...     create_unit_cube(MPI.COMM_SELF, 3, 3, 3),
        ...     {E: ("N1curl", 1)},
        ...     [cf.Tangential(E, 0)],
        ... )
        >>> w = P.function()
        >>> w.interpolate(lambda x: (x[0], x[1] * x[2], x[0]))
        >>> P.residual(w) > 0.1, P.residual(P.project(w)) < 1e-13
        (True, True)
    """
    from cffem.engine.mesh.meshes import read_mesh

    fields = constraint.fields
    libraries = {f.name: Library(terms={f"identity_{f.name}": f}, unknown=f) for f in fields}
    library: Library | System = (
        next(iter(libraries.values())) if len(fields) == 1 else System(libraries)
    )
    domain = read_mesh(mesh, None)
    resolved = {
        f: basix_element(domain.mesh, f, description) for f, description in elements.items()
    }
    direct = isinstance(constraint, ZeroMean) or (
        constraint.multiplier is None and in_complex(constraint, resolved)
    )
    declared = None if direct else constraint
    experiment = Experiment(
        mesh=mesh, elements=resolved, boundary=tuple(boundary), constraint=declared
    )
    discretisation = Discretisation(library, experiment, domain)
    return projection_onto(constraint, discretisation, EssentialConditions(discretisation), options)


def projection_of(model: Model, options: PetscOptions | None = None) -> Projection:
    """The projection onto the constraint class that a model's experiment declares, on the
    model's own states.
    """
    constraint = model.experiment.constraint
    if constraint is None:
        raise InputError(
            "the experiment declares no constraint: add constraint=DivergenceFree(E), for instance"
        )
    return projection_onto(constraint, model.discretisation, model.essential, options)


def projection_onto(
    constraint: Constraint,
    discretisation: Discretisation,
    essential: EssentialConditions,
    options: PetscOptions | None = None,
) -> Projection:
    """The projection onto a constraint class in a state space.

    Projections that were added (`cffem.extend.add_projection`) are asked first.
    """
    for added in PROJECTIONS.latest_first():
        if added.covers(constraint, discretisation):
            return added.make(constraint, discretisation, essential, options)
    if isinstance(constraint, ZeroMean):
        return MeanProjection(discretisation, essential, constraint.field)
    multiplier = None if discretisation.multiplier is None else discretisation.multiplier[1]
    paired = in_complex(constraint, discretisation.spaces.elements, multiplier)
    if isinstance(constraint, DivergenceFree) and paired:
        weight = (
            None if constraint.weight == 1 else Lowering(discretisation.context)(constraint.weight)
        )
        return HelmholtzProjection(discretisation, essential, constraint.field, weight, options)
    if isinstance(constraint, CurlFree) and paired:
        return CurlFreeProjection(discretisation, essential, constraint.field, options)
    return SaddleProjection(discretisation, essential, options)


def in_complex(
    constraint: Constraint,
    elements: Mapping[Field, _ElementBase],
    multiplier: tuple[Field, _ElementBase] | None = None,
) -> bool:
    """Whether the class is that of the discrete gradient: a Nédélec field, and no multiplier
    space but the paired one.
    """
    if not isinstance(constraint, DivergenceFree | CurlFree):
        return False
    element = elements[constraint.field]
    return carrier(element).space == HCURL and multiplier in (None, before(element))
