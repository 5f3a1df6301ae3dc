# SPDX-License-Identifier: MIT
"""The same model on coarser and finer discretisations about the user's: cells and time steps twice
as large or half as large.

Coarser meshes are made anew, from the same shape, and are not nested in the user's. They are small,
so that every rank has the whole of them and solves on its own: the numbers do not depend on how
many ranks there are.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from mpi4py import MPI

from cffem._compat import straight_simplices
from cffem.bounds.certificate import NotCovered
from cffem.bounds.levels.compared import compared_fields
from cffem.bounds.levels.interpolation import interpolation
from cffem.bounds.levels.ladders import check_mesh, refined_domain, refined_known
from cffem.bounds.levels.prolongation import prolongation
from cffem.engine.mesh.msh_format import MeshError
from cffem.symbols.errors import InputError
from cffem.symbols.problem.known_values import on_one_mesh

if TYPE_CHECKING:
    from scipy import sparse

    from cffem.engine.model import Model
    from cffem.symbols.fields import Field
    from cffem.symbols.problem.window import Window


# Cells and steps are to become larger by a factor of two; by less than this they are no level.
LEAST = 1.5
# No fewer time steps on a level.
FEWEST_STEPS = 2


def coarser_window(window: Window | None, factor: int) -> Window | None:
    """The same window with fewer steps.

    Raises:
        NotCovered: that would be too few.

    Example:
        >>> import cffem as cf
        >>> coarser_window(cf.Window(0, 1, steps=10), 4).steps
        3
    """
    if window is None:
        return None
    steps = math.ceil(window.steps / factor)
    if steps < FEWEST_STEPS or window.steps < LEAST * steps:
        raise NotCovered(f"{window.steps} time steps are too few for longer ones")
    return window.resampled(steps)


def check_coarser(model: Model) -> None:
    """Raise `NotCovered` where a model has no coarser levels."""
    domain = model.discretisation.domain
    if domain.remade is None:
        raise NotCovered(
            "the mesh does not say how it was made, so that there is no coarser one; the shapes of "
            "cffem.mesh do"
        )
    if not straight_simplices(domain.mesh):
        raise NotCovered("only straight intervals, triangles and tetrahedra are compared")
    if model.discretisation.captured:
        raise NotCovered("a form contains functions or constants of this mesh")
    if any(map(on_one_mesh, model.experiment.known.values())):
        raise NotCovered("data are given as functions on the mesh")
    check_mesh(model)


def cells_of(model: Model) -> int:
    """The number of cells of a model's mesh."""
    topology = model.discretisation.mesh.topology
    return int(topology.index_map(topology.dim).size_global)


def coarser_model(model: Model, factor: int) -> Model:
    """The model with cells and time steps larger by a factor, on this rank alone.

    Raises:
        NotCovered: there is none; the message says why.
    """
    window = coarser_window(model.experiment.time, factor)
    domain, dim = model.discretisation.domain, model.discretisation.mesh.topology.dim
    try:
        mesh = domain.remade(float(factor), MPI.COMM_SELF)
        changed = dataclasses.replace(model.experiment, mesh=mesh, comm=MPI.COMM_SELF, time=window)
        result = model.in_experiment(changed)
    except (MeshError, InputError) as error:
        raise NotCovered(f"there is no coarser level: {error}") from None
    if cells_of(model) < (LEAST ** (factor // 2)) ** dim * cells_of(result):
        result.destroy()
        raise NotCovered("the mesh is too coarse for coarser levels")
    return result


def finer_model(model: Model) -> tuple[Model, dict[Field, sparse.csr_matrix]]:
    """The model with all cells divided and the time step halved, and for each unknown the matrix
    from its values to those there; collective.
    """
    domain, parents = refined_domain(model.discretisation.domain)
    window = model.experiment.time
    if window is not None:
        window = window.divided(2)
    known = refined_known(model, domain, parents)
    changed = dataclasses.replace(model.experiment, mesh=domain, time=window, known=known)
    result = model.in_experiment(changed)
    maps = {
        field: prolongation(model.spaces.own(field)[0], result.spaces.own(field)[0], parents)
        for field in compared_fields(model)
    }
    return result, maps


def interpolated(coarse: Model, model: Model) -> dict[Field, sparse.csr_matrix]:
    """For each unknown the matrix from its values on a coarser mesh to those of a model."""
    return {
        field: interpolation(coarse.spaces.own(field)[0], model.spaces.own(field)[0])
        for field in compared_fields(model)
    }
