# SPDX-License-Identifier: MIT
"""The same model on finer and finer discretisations: the ladders that three-level estimates and
refinement climb.

A ladder goes up by the mesh (every cell is divided), by the degree (every element is raised by one
degree on the same mesh), by the time step (halved), or by mesh or degree and time step together.
The user's own discretisation is always the lowest rung. Backward Euler, whose error a halved step
would only halve, is followed by the second-order scheme sdirk2. Every space is contained in the
next, so that solutions of all rungs can be compared exactly.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh

from cffem._compat import refined, straight_simplices
from cffem.bounds.certificate import NotCovered
from cffem.bounds.levels.compared import compared_fields, raised_states
from cffem.bounds.levels.prolongation import affine, prolongation
from cffem.engine.assembly.spaces import Spaces, basix_element
from cffem.engine.mesh.meshes import MeshData
from cffem.engine.model import Model
from cffem.engine.solve.presets import MARCHING
from cffem.symbols.problem.known_values import on_one_mesh
from cffem.symbols.problem.measured import Interpolated

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx.mesh import Mesh, MeshTags
    from scipy import sparse

    from cffem.engine.solve.stage_types import OptionValue
    from cffem.symbols.fields import Field
    from cffem.symbols.problem.constraint_classes import Constraint
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.window import Window


MESH, DEGREE, TIME, BOTH, RAISED = (
    "mesh",
    "degree",
    "time step",
    "mesh and time step",
    "degree and time step",
)
# Unknowns in space from which time steps are solved faster by iterations than by factors.
FILLED = 10_000


class Ladder:
    """Models of one problem on ever finer discretisations, each made when it is asked for.

    Args:
        model: the model on the lowest rung.
        way: one of "mesh", "degree", "time step", "mesh and time step" and "degree and time step".

    Raises:
        NotCovered: this way up does not exist for the model; the message says why.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> ladder = Ladder(cf.Model(library, {"lap": 1.0}, experiment), "mesh")
        >>> ladder.model(1).spaces.size, ladder.size(2)
        (81, 400.0)
    """

    def __init__(self, model: Model, way: str):
        self.way = way
        self.models: list[Model] = [model]
        self._parents: list[np.ndarray] = []
        self._embeddings: dict[Any, Any] = {}
        if way in (MESH, BOTH):
            check_mesh(model)
        elif way in (DEGREE, RAISED):
            raised_elements(model.experiment, 1)

    def size(self, level: int) -> float:
        """Unknowns times time steps of a rung, without making it: what a budget is compared
        with.
        """
        model, window = self.models[0], self.models[0].experiment.time
        steps = 1.0 if window is None else window.steps * self._faster(level)
        if self.way not in (DEGREE, RAISED):
            divided = level if self.way in (MESH, BOTH) else 0
            return (
                model.spaces.size
                * steps
                * 2.0 ** (divided * model.discretisation.mesh.topology.dim)
            )
        domain, elements = model.discretisation.mesh, raised_elements(model.experiment, level)
        unknowns = {f: basix_element(domain, f, elements[f]) for f in model.discretisation.unknowns}
        return Spaces(domain, unknowns).size * steps

    def _faster(self, level: int) -> int:
        """By how much a rung has more time steps than the lowest."""
        return 2**level if self.way in (TIME, BOTH, RAISED) else 1

    def model(self, level: int) -> Model:
        """The model on a rung; collective."""
        while len(self.models) <= level:
            self.models.append(self._next())
            if self.models[0].experiment.time is None:
                self.models[-1].start_at = partial(self._raised, len(self.models) - 2)
        return self.models[level]

    def _raised(self, level: int) -> np.ndarray:
        """The factual solution of a rung as a state of the next, whose Newton method starts
        there to find the same branch.
        """
        below, above = self.models[level : level + 2]
        return raised_states(
            below.factual.states, below.spaces, above.spaces, self.embeddings(level, level + 1)
        )[0]

    def _next(self) -> Model:
        below, start, level = self.models[-1], self.models[0].experiment, len(self.models)
        window = start.time
        if self.way == TIME and window is not None:
            return self.models[0].at(finer_window(window, self._faster(level)))
        changes: dict[str, Any] = {"mesh": below.discretisation.given}
        if self.way in (BOTH, RAISED):
            changes["time"] = window and finer_window(window, self._faster(level))
        if self.way in (MESH, BOTH):
            changes["mesh"], parents = refined_domain(below.discretisation.given)
            self._parents.append(parents)
            changes["known"] = refined_known(below, changes["mesh"], parents)
        if self.way in (DEGREE, RAISED):
            changes["elements"] = raised_elements(start, level)
            changes["constraint"] = raised_constraint(start.constraint, level)
        options = below.petsc_options or self._options(level)
        finer = dataclasses.replace(start, **changes)
        return Model(below.library, below.coefficients, finer, options, observer=below.observer)

    def _options(self, level: int) -> dict[str, OptionValue]:
        """The solver of a higher rung where the user names none: factors fill up in space,
        and time steps do not need them.
        """
        discretisation, window = self.models[0].discretisation, self.models[0].experiment.time
        if (
            discretisation.mesh.topology.dim < 3
            or window is None
            or discretisation.multiplier is not None
        ):
            return {}
        unknowns = self.size(level) / (window.steps * self._faster(level))
        return {"preset": MARCHING} if unknowns > FILLED else {}

    def embeddings(
        self, level: int, finest: int, start: Any = None
    ) -> dict[Field, sparse.csr_matrix]:
        """For each unknown field the matrix from its local values on one rung to those on a higher
        one.

        Args:
            level, finest: the rungs.
            start: a model with the same mesh and elements as the lower rung, from whose values the
                matrix shall lead.
        """
        found = {}
        for unknown in compared_fields(self.model(finest)):
            steps = [
                self._embedding(rung, unknown, start if rung == level else None)
                for rung in range(level, finest)
            ]
            found[unknown] = reduce(lambda product, matrix: matrix @ product, steps)
        return found

    def _embedding(self, rung: int, unknown: Field, start: Any) -> sparse.csr_matrix:
        """The matrix from one rung to the next, made once; one that leads from the values of
        another model is not kept.
        """
        key = (rung, unknown)
        if start is None and key in self._embeddings:
            return self._embeddings[key]
        below, above = (
            model.spaces.own(unknown)[0]
            for model in (start or self.models[rung], self.models[rung + 1])
        )
        matrix = prolongation(
            below, above, self._parents[rung] if self.way in (MESH, BOTH) else None
        )
        if start is None:
            self._embeddings[key] = matrix
        return matrix

    def destroy(self) -> None:
        """Free all models but the user's; collective."""
        for model in self.models[1:]:
            model.destroy()


def first_order(model: Model) -> bool:
    """Whether an unknown has elements without all linear functions, which converge with order
    one.
    """
    elements = [model.spaces.elements[f] for f in model.discretisation.unknowns]
    return any(getattr(element, "embedded_subdegree", 1) < 1 for element in elements)


def finer_window(window: Window, factor: int) -> Window:
    """The same window with more steps, by a scheme of second order."""
    scheme = "sdirk2" if window.scheme == "backward-euler" else window.scheme
    return dataclasses.replace(window.divided(factor), scheme=scheme)


def check_mesh(model: Model) -> None:
    """Whether a mesh can be refined without changing the problem."""
    mesh, experiment = model.discretisation.mesh, model.experiment
    if not straight_simplices(mesh):
        raise NotCovered("only meshes of straight intervals, triangles and tetrahedra are refined")
    weak = [
        *model.discretisation.weak_terms.values(),
        *filter(None, model.discretisation.weak_anchors.values()),
    ]
    if model.discretisation.captured:
        raise NotCovered("a form contains functions or constants of this mesh, and of no finer one")
    if any(term.jumps or term.penalties or term.conserved is not None for term in weak):
        raise NotCovered(
            "a term has fluxes between cells, and a refined mesh has no ghost cells for them"
        )
    data = [
        *experiment.initial.values(),
        *experiment.forcing.values(),
        *(getattr(c, "value", 0) for c in experiment.boundary),
    ]
    if any(hasattr(value, "function_space") for value in data):
        raise NotCovered(
            "data are given as functions on the mesh, which say nothing about a finer one"
        )


def raised_elements(experiment: Experiment, by: int) -> dict[Field, _ElementBase]:
    """The elements of an experiment with higher degrees."""
    if not all(
        isinstance(description, tuple | list) for description in experiment.elements.values()
    ):
        raise NotCovered("an element is given as a Basix element, of which there is no next degree")
    return {
        unknown: (family, degree + by) for unknown, (family, degree) in experiment.elements.items()
    }


def raised_constraint(constraint: Constraint | None, by: int) -> Constraint | None:
    """A constraint whose multiplier, where it is named, has a higher degree too."""
    if constraint is None or constraint.multiplier is None:
        return constraint
    unknown, (family, degree) = constraint.multiplier
    result = copy.copy(constraint)
    object.__setattr__(result, "multiplier", (unknown, (family, degree + by)))
    return result


def refined_domain(
    domain: MeshData, chosen: np.ndarray | None = None
) -> tuple[MeshData, np.ndarray]:
    """A mesh with its names refined, and the parent of each cell; collective.

    Args:
        domain: the mesh.
        chosen: this rank's cells that are divided, None for all. Where some are chosen, nobody
            knows how to make the mesh anew.
    """
    mesh, parents = refined(domain.mesh, chosen)
    cell_tags = facet_tags = None
    if domain.cell_tags is not None:
        values, tagged = _by_entity(domain.mesh, domain.cell_tags)
        cells = np.flatnonzero(tagged[parents]).astype(np.int32)
        cell_tags = dolfinx_mesh.meshtags(mesh, mesh.topology.dim, cells, values[parents[cells]])
    if domain.facet_tags is not None:
        facet_tags = _facet_tags(domain, mesh, parents)
    remade = domain.remade if chosen is None else None
    coarser = None if remade is None else lambda factor, comm: remade(factor / 2, comm)
    return MeshData(mesh, cell_tags, facet_tags, domain.names, remade=coarser), parents


def refined_known(model: Model, domain: MeshData, parents: np.ndarray) -> dict[Any, Any]:
    """The values of known fields on a refined mesh: functions and values by tags of cells, which
    belong to the mesh, as the same functions there; collective.
    """
    found = dict(model.experiment.known)
    for key, value in found.items():
        if not on_one_mesh(value) or isinstance(value, Interpolated):
            continue
        function = model.discretisation.known.values[key]
        if not isinstance(function, fem.Function):
            raise NotCovered(f"the known field {key} is given by formulas on tagged cells")
        above = fem.functionspace(domain.mesh, function.function_space.ufl_element())
        finer = fem.Function(above, name=function.name)
        matrix = prolongation(function.function_space, above, parents)
        finer.x.array[:] = matrix @ function.x.array
        finer.x.scatter_forward()
        found[key] = finer
    return found


def _by_entity(mesh: Mesh, tags: MeshTags) -> tuple[np.ndarray, np.ndarray]:
    """The tag of every local entity, and whether it has one."""
    index_map = mesh.topology.index_map(tags.dim)
    values = np.zeros(index_map.size_local + index_map.num_ghosts, dtype=np.int32)
    tagged = np.zeros(len(values), dtype=bool)
    values[tags.indices], tagged[tags.indices] = tags.values, True
    return values, tagged


def _facet_tags(domain: MeshData, mesh: Mesh, parents: np.ndarray) -> Constraint | None:
    """Tags on the facets of a refined mesh that lie on tagged facets of the parents.

    A facet of a child lies on the parent's facet where one barycentric coordinate vanishes at all
    of its vertices.
    """
    dimension = mesh.topology.dim
    origin, jacobian = affine(domain.mesh, parents)
    corner, edges = affine(mesh, np.arange(len(parents)))
    points = np.concatenate([corner[:, None], corner[:, None] + np.swapaxes(edges, 1, 2)], axis=1)
    local = np.einsum("nij,nvj->nvi", np.linalg.pinv(jacobian), points - origin[:, None])
    zero = np.abs(np.concatenate([1 - local.sum(axis=2, keepdims=True), local], axis=2)) < 1e-9
    values, tagged = _by_entity(domain.mesh, domain.facet_tags)
    above, below = (_facets(m) for m in (domain.mesh, mesh))
    found: dict[int, int] = {}
    for vertex in range(dimension + 1):
        others = [v for v in range(dimension + 1) if v != vertex]
        for face in range(dimension + 1):
            facets = above[parents, _opposite(face, dimension)]
            on = zero[:, others, face].all(axis=1) & tagged[facets]
            found.update(
                zip(
                    below[on, _opposite(vertex, dimension)].tolist(),
                    values[facets[on]].tolist(),
                    strict=True,
                )
            )
    indices = np.array(sorted(found), dtype=np.int32)
    return dolfinx_mesh.meshtags(
        mesh, dimension - 1, indices, np.array([found[i] for i in indices.tolist()], dtype=np.int32)
    )


def _opposite(vertex: int, dimension: int) -> int:
    """The local number of the facet opposite to a vertex: the same number, but in an interval
    facets are vertices.
    """
    return 1 - vertex if dimension == 1 else vertex


def _facets(mesh: Mesh) -> np.ndarray:
    """The facets of each local cell."""
    dimension = mesh.topology.dim
    mesh.topology.create_entities(dimension - 1)
    mesh.topology.create_connectivity(dimension, dimension - 1)
    return mesh.topology.connectivity(dimension, dimension - 1).array.reshape(-1, dimension + 1)
