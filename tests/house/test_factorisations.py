"""Every factorisation is made by one helper that checks it: a failure that nobody sees
becomes a wrong number.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cffem"
# What makes factors: PETSc's and SLEPc's solvers, and those of other libraries.
MAKES = re.compile(
    r"\b(setFactorSolverType|setFactorSetUpSolverType|splu|spilu|factorized|cho_factor|lu_factor)\b"
)
# The helper; a doctor that looks at PETSc itself; a benchmark that is written without cffem on
# purpose.
ALLOWED = {"engine/solve/factorisation.py", "doctor.py", "benchmarks/sweep/sweep_by_hand.py"}
# Where solvers are made from options, which may name a factorisation: all of these pass through
# `sound`.
FROM_OPTIONS = {
    "engine/solve/linear.py",
    "constraints/projections/projection_solver.py",
    "engine/solve/factorisation.py",
}
# Where Krylov solvers are made and read their options.
FACTORY = "engine/solve/petsc_options.py"
# Preconditioners that factorise nothing, or incompletely, whose solves are judged by their
# residuals.
ITERATIVE = {"engine/solve/preconditioners.py", "engine/deletion/difference_systems.py"}


def modules():
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def test_nobody_else_asks_for_factors():
    guilty = [
        name
        for name in modules()
        if name not in ALLOWED and MAKES.search((PACKAGE / name).read_text())
    ]
    assert not guilty, f"{guilty} make factors; use cffem.engine.solve.factorisation"


def called(name, functions):
    """Whether a module calls one of these functions or methods."""
    for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            word = function.attr if isinstance(function, ast.Attribute) else None
            word = function.id if isinstance(function, ast.Name) else word
            if word in functions:
                return True
    return False


def test_solvers_are_made_where_their_factors_are_checked():
    made = {name for name in modules() if called(name, ("KSP", "PC", "SNES"))}
    assert made <= {FACTORY} | ITERATIVE | ALLOWED
    assert {name for name in modules() if called(name, ("KSP",))} <= {FACTORY} | ALLOWED
    users = {name for name in modules() if called(name, ("new_ksp", "reading"))}
    assert users <= {FACTORY} | FROM_OPTIONS | ITERATIVE
    for name in FROM_OPTIONS:
        assert re.search(r"\bsound\(", (PACKAGE / name).read_text()), (
            f"{name} does not check its factors"
        )
