"""Plain DOLFINx of any version, which tests compare with."""

from __future__ import annotations


def solved_by_dolfinx(form, right, bcs=()):
    """The solution of a linear problem by plain DOLFINx, of any version, with a direct solver."""
    import inspect

    from dolfinx.fem.petsc import LinearProblem

    options = {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "mumps"}
    named = "petsc_options_prefix" in inspect.signature(LinearProblem.__init__).parameters
    prefix = {"petsc_options_prefix": "plain_"} if named else {}
    return LinearProblem(form, right, bcs=list(bcs), petsc_options=options, **prefix).solve()
