# SPDX-License-Identifier: MIT
"""The discrete state: one space for all unknowns together, and how each field lives in it.

Fields, multipliers and auxiliary fields are the components of one mixed space (a single field has
its own space), so that every term is one form on one dof map and all term matrices share a sparsity
pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import basix.ufl
import numpy as np
import ufl
from dolfinx import fem, la
from petsc4py import PETSc

from cffem._compat import cell_name, collapsed
from cffem.engine.store.numbering import Numbering
from cffem.forms.elements import H1, HCURL, HDIV, after, before, carrier
from cffem.symbols.algebra.nodes import Curl
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.fields import Field, ScalarField, VectorField

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx.mesh import Mesh
    from mpi4py import MPI
    from ufl.core.expr import Expr

    from cffem.symbols.problem.constraint_classes import Constraint


SCALAR_FAMILIES = ("Lagrange", "DG", "serendipity")
VECTOR_FAMILIES = {
    "N1curl",
    "N2curl",
    "RT",
    "BDM",
    "Regge",
    "N1E",
    "N2E",
    "N1div",
    "RTCE",
    "RTCF",
    "NCE",
    "NCF",
}


def basix_element(mesh: Mesh, unknown: Field, description: Any) -> _ElementBase:
    """The Basix element of a field from (family, degree) or from a Basix element.

    Raises:
        InputError: the family is unknown, or does not fit the shape of the field.
    """
    dimension = mesh.geometry.dim
    if unknown.dim not in (None, dimension):
        raise InputError(
            f"field {unknown} has {unknown.dim} components, but the mesh has dimension {dimension}"
        )
    if hasattr(description, "reference_value_shape"):
        element = description
    else:
        element = _named_element(mesh, unknown, description, dimension)
    if getattr(element, "has_custom_quadrature", False):
        raise InputError(
            f"field {unknown} cannot live on quadrature points, where nothing is known between "
            "them; interpolate its values into "
            f"a discontinuous element, for instance {unknown}: ('DG', 1)"
        )
    if tuple(element.reference_value_shape) != tuple(unknown.shape):
        kind = "vector" if isinstance(unknown, VectorField) else "scalar"
        raise InputError(
            f"{kind} field {unknown} cannot live on {description}: its values have shape "
            f"{element.reference_value_shape}"
        )
    return element


def _named_element(mesh: Mesh, unknown: Field, description: Any, dimension: int) -> _ElementBase:
    if not isinstance(description, tuple | list) or len(description) != 2:
        raise InputError(
            f"the element of {unknown} must be (family, degree), for instance ('Lagrange', 2), "
            f"not {description!r}"
        )
    family, degree = description
    vector = isinstance(unknown, VectorField)
    if not vector and family in VECTOR_FAMILIES:
        raise InputError(
            f"scalar field {unknown} cannot live on the vector element {family}; use Lagrange or DG"
        )
    shape = (dimension,) if vector and family not in VECTOR_FAMILIES else None
    try:
        return basix.ufl.element(family, cell_name(mesh.ufl_domain()), degree, shape=shape)
    except Exception as error:
        known = (*SCALAR_FAMILIES, *(sorted(VECTOR_FAMILIES) if vector else ()))
        why = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        hint = (
            nearest(family, known)
            if family not in known
            else f"{why}; degrees begin with 1, those of DG with 0"
        )
        raise InputError(
            f"there is no element {family} of degree {degree} for {unknown} on this mesh: {hint}"
        ) from None


class Spaces:
    """The space of the whole state and its fields.

    Args:
        mesh: the DOLFINx mesh.
        elements: Basix elements of all fields of the state, in the order they take in it.

    Attributes:
        fields: the fields in order.
        space: the DOLFINx space of the state.
    """

    def __init__(self, mesh: Mesh, elements: Mapping[Field, _ElementBase]):
        self.mesh = mesh
        self.elements = dict(elements)
        self.fields: tuple[Field, ...] = tuple(elements)
        self.mixed = len(self.fields) > 1
        element = (
            basix.ufl.mixed_element(list(elements.values()))
            if self.mixed
            else next(iter(elements.values()))
        )
        self.space = fem.functionspace(mesh, element)
        self._own: dict[Field, tuple[fem.FunctionSpace, np.ndarray | None]] = {}
        self._numberings: dict[Field, Numbering] = {}
        self._work: fem.Function = None

    @property
    def comm(self) -> MPI.Comm:
        """The mesh's communicator."""
        return self.mesh.comm

    @property
    def size(self) -> int:
        """The global number of unknowns."""
        return self.space.dofmap.index_map.size_global * self.space.dofmap.index_map_bs

    @property
    def owned(self) -> int:
        """How many unknowns this rank owns; they come first in local arrays."""
        return self.space.dofmap.index_map.size_local * self.space.dofmap.index_map_bs

    def parts(self, function: fem.Function) -> dict[Field, Expr]:
        """UFL expressions of the fields in a function or argument of the state space."""
        return dict(
            zip(self.fields, ufl.split(function) if self.mixed else (function,), strict=True)
        )

    def own(self, unknown: Field) -> tuple[fem.FunctionSpace, np.ndarray | None]:
        """A space of its own for a field, and its dofs in the state's local array (None: all
        of them).
        """
        if unknown not in self._own:
            self._own[unknown] = (
                collapsed(self.space, self.fields.index(unknown))
                if self.mixed
                else (self.space, None)
            )
        return self._own[unknown]

    def numbering(self, unknown: Field) -> Numbering:
        """The geometric numbering of a field's own space, made once; collective."""
        if unknown not in self._numberings:
            self._numberings[unknown] = Numbering(self.own(unknown)[0])
        return self._numberings[unknown]

    def dofs(self, unknown: Field) -> np.ndarray:
        """Positions of a field's unknowns, ghosts included, in the state's local array."""
        space, where = self.own(unknown)
        if where is not None:
            return where
        imap, block = space.dofmap.index_map, space.dofmap.index_map_bs
        return np.arange((imap.size_local + imap.num_ghosts) * block, dtype=np.int32)

    def mask(self, unknowns: Sequence[Field]) -> np.ndarray:
        """Over the owned unknowns: 1 where they belong to one of the given fields, else 0."""
        mask = np.zeros(self.owned)
        for unknown in unknowns:
            dofs = self.dofs(unknown)
            mask[dofs[dofs < self.owned]] = 1.0
        return mask

    def function(self, unknown: Field, state: np.ndarray) -> fem.Function:
        """A DOLFINx function of one field with the values of a state (local array, owned
        values suffice).
        """
        result = fem.Function(self.own(unknown)[0], name=unknown.name)
        result.x.array[:] = self.with_ghosts(state)[self.dofs(unknown)]
        return result

    def global_rows(self, positions: np.ndarray) -> np.ndarray:
        """The global numbers of local positions of unknowns that this rank owns, for PETSc."""
        imap, block = self.space.dofmap.index_map, self.space.dofmap.index_map_bs
        return (positions + imap.local_range[0] * block).astype(PETSc.IntType)

    def assembled(self, form: ufl.Form) -> np.ndarray:
        """A compiled linear form on the space of the state, assembled; owned values, collective."""
        work = la.vector(self.space.dofmap.index_map, self.space.dofmap.index_map_bs)
        work.array[:] = 0.0
        fem.assemble_vector(work.array, form)
        work.scatter_reverse(la.InsertMode.add)
        return work.array[: self.owned].copy()

    def with_ghosts(self, state: np.ndarray) -> np.ndarray:
        """The values of a state on this rank, those that other ranks own included; collective."""
        # One vector for all calls: every new one would take communicators.
        if self._work is None:
            self._work = la.vector(self.space.dofmap.index_map, self.space.dofmap.index_map_bs)
        self._work.array[: self.owned] = state[: self.owned]
        self._work.scatter_forward()
        return self._work.array.copy()


def default_multiplier(
    mesh: Mesh, constraint: Constraint, elements: Mapping[Field, _ElementBase]
) -> tuple[Field, _ElementBase]:
    """The multiplier space that makes the pair stable, where the user names none."""
    leaders = [f for f in constraint.fields if isinstance(f, VectorField)]
    if len(leaders) != 1 or constraint.shape != ():
        raise InputError(
            "this constraint needs a multiplier: Constraint(expr, multiplier={q: ('Lagrange', 1)})"
        )
    (leader,) = leaders
    element, unknown = elements[leader], ScalarField(f"{leader.name}_multiplier")
    space = carrier(element).space
    if space == HCURL:
        # In the plane curl maps a Nédélec space onto discontinuous functions of one degree less;
        # potentials test a divergence.
        by_curl = constraint.expr.has(Curl)
        return unknown, after(element) if by_curl else before(element)
    if space == HDIV:
        return unknown, after(element)
    if space == H1 and element.degree >= 2:
        return unknown, basix_element(mesh, unknown, ("Lagrange", element.degree - 1))
    raise InputError(
        f"no stable multiplier is known for {leader} on its element; use degree 2 (Taylor–Hood) "
        "or name a multiplier"
    )
