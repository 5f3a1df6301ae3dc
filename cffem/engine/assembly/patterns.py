# SPDX-License-Identifier: MIT
"""Matrices of integrals over cells and boundary facets, which have their entries in the same
places.

On one rank DOLFINx assembles into compressed rows of its own, which takes two thirds of the time
that inserting into a PETSc matrix does, and PETSc takes the same rows for its matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dolfinx import fem
from petsc4py import PETSc

from cffem import _compat

if TYPE_CHECKING:
    import ufl


# The attribute of a PETSc matrix under which its entries are kept.
ENTRIES = "cffem_entries"


class Pattern:
    """The places of the entries of all such forms of a space with itself, found once.

    Args:
        form: one of the compiled forms.
        space: the space.
    """

    def __init__(self, form: ufl.Form, space: fem.FunctionSpace):
        self._rows: Any = None
        self._template: PETSc.Mat = None
        self._comm = space.mesh.comm
        if self._comm.size > 1 or space.dofmap.index_map_bs > 1:
            self._template = _compat.create_matrix(form)
            return
        self._rows = fem.create_matrix(form)
        self._places = (
            self._rows.indptr.astype(PETSc.IntType),
            self._rows.indices.astype(PETSc.IntType),
        )

    @staticmethod
    def fits(form: ufl.Form, beside: bool = False) -> bool:
        """Whether a compiled form has the pattern of integrals over cells.

        Args:
            form: the compiled form.
            beside: whether the pattern is known, so that integrals over the boundary alone or over
                a part of the cells find their places in it. Those of a part do not make it: it
                would have no room for terms that act elsewhere.
        """
        kinds = form.integral_types
        if fem.IntegralType.interior_facet in kinds:
            return False
        if beside:
            return fem.IntegralType.cell in kinds or fem.IntegralType.exterior_facet in kinds
        return fem.IntegralType.cell in kinds and _on_all_cells(form)

    def made(self, matrix: PETSc.Mat) -> bool:
        """Whether a matrix has this pattern; one that was assembled before the pattern was known
        has its own.
        """
        return self._rows is None or matrix.getAttr(ENTRIES) is not None

    def new(self) -> PETSc.Mat:
        """An empty matrix; the caller owns it."""
        if self._template is not None:
            return self._template.duplicate(copy=False)
        entries = np.zeros(len(self._rows.data))
        size = len(self._places[0]) - 1
        matrix = PETSc.Mat().createAIJWithArrays(
            (size, size), (*self._places, entries), comm=self._comm
        )
        matrix.setAttr(ENTRIES, entries)
        return matrix

    def assemble(self, form: ufl.Form, matrix: PETSc.Mat) -> None:
        """Assemble a form into a matrix of this pattern."""
        if self._rows is None:
            _compat.assemble_matrix(form, matrix=matrix)
            return
        self._rows.set_value(0.0)
        fem.assemble_matrix(self._rows, form)
        matrix.getAttr(ENTRIES)[:] = self._rows.data
        matrix.assemble()  # tells PETSc that the entries changed

    def destroy(self) -> None:
        """Free what patterns are taken from; collective."""
        if self._template is not None:
            self._template.destroy()


def _on_all_cells(form: ufl.Form) -> bool:
    """Whether a compiled form has an integral over all cells: that of the number −1."""
    compiled = form.ufcx_form
    first, last = compiled.form_integral_offsets[0], compiled.form_integral_offsets[1]
    return any(compiled.form_integral_ids[k] == -1 for k in range(first, last))
