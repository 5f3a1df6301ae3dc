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
# Preconditioners that factorise nothing, or incompletely, whose solves are judged by their
# residuals.
ITERATIVE = {"engine/solve/preconditioners.py", "engine/deletion/difference.py"}


def modules():
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def test_nobody_else_asks_for_factors():
    guilty = [
        name
        for name in modules()
        if name not in ALLOWED and MAKES.search((PACKAGE / name).read_text())
    ]
    assert not guilty, f"{guilty} make factors; use cffem.engine.solve.factorisation"


def test_solvers_are_made_where_their_factors_are_checked():
    found = set()
    for name in modules():
        for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("KSP", "PC", "SNES")
            ):
                found.add(name)
    assert found <= FROM_OPTIONS | ITERATIVE | ALLOWED
    for name in FROM_OPTIONS:
        assert re.search(r"\bsound\(", (PACKAGE / name).read_text()), (
            f"{name} does not check its factors"
        )
