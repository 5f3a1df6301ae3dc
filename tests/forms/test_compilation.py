"""Compilation: one module per distinct term, none for a change of value, none in a second
run, and no races between ranks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem, mesh

import cffem as cf
from cffem import dot, grad, lap, norm2, x
from cffem._compat import form, jit_folder
from cffem.forms.lowering import Context
from cffem.forms.weak import weak_form

pytestmark = pytest.mark.fem
HERE = Path(__file__).parent
TERMS = 12


def library() -> tuple[cf.ScalarField, dict[str, sp.Expr]]:
    """Twelve different terms and one that is another with a different parameter."""
    u, nu, kappa = cf.ScalarField("u"), cf.Parameter("nu"), cf.Parameter("kappa")
    terms = {
        "one": sp.Integer(1),
        "u": u,
        "u^2": u**2,
        "u^3": u**3,
        "sin": sp.sin(u),
        "u_x": u.diff(x),
        "Burgers": u * u.diff(x),
        "x u_x": x * u.diff(x),
        "lap": nu * lap(u),
        "lap again": kappa * lap(u),
        "slope": norm2(grad(u)),
        "nonlinear": u * lap(u) + dot(grad(u), grad(u)),
        "jump": cf.div(sp.Piecewise((1, x < sp.Rational(1, 2)), (nu, True)) * grad(u)),
    }
    return u, terms


def compile_library(comm) -> int:
    """Compile every term on every rank, evaluate it, and return how many modules the cache
    then holds.
    """
    domain = mesh.create_unit_interval(comm, 8)
    u, terms = library()
    element = basix.ufl.element("Lagrange", "interval", 1)
    space = fem.functionspace(domain, element)
    function = fem.Function(space)
    function.interpolate(lambda p: p[0] ** 2)
    parameters = {cf.Parameter(name): fem.Constant(domain, 2.0) for name in ("nu", "kappa")}
    for term in terms.values():
        weak = weak_form(term, u, {u: element})
        context = Context(
            domain.ufl_domain(), {u: function, weak.test: ufl.TestFunction(space), **parameters}
        )
        compiled = form(weak.forms(context).total, comm)
        for value in (2.0, 3.0):
            for constant in parameters.values():
                constant.value = value
            fem.assemble_vector(compiled)
    comm.Barrier()
    return len(list(jit_folder().rglob("*.so")))


def print_count(comm) -> None:
    count = compile_library(comm)
    if comm.rank == 0:
        print(f"modules: {count}")


def modules_after_a_run(cache: Path, seed: str) -> int:
    """Compile the library in a process of its own, with its own order of hashes."""
    code = (
        "from mpi4py import MPI; import test_compilation; "
        "test_compilation.print_count(MPI.COMM_SELF)"
    )
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "CFFEM_CACHE": str(cache),
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": paths,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.split("modules:")[1])


def test_one_module_per_distinct_term_and_none_in_the_second_run(tmp_path):
    _, terms = library()
    assert len(terms) == TERMS + 1
    # The mesh's coordinate element and the interpolation need no module of their own.
    assert modules_after_a_run(tmp_path, seed="1") == TERMS
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")}
    assert modules_after_a_run(tmp_path, seed="2") == TERMS
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")} == times


@pytest.mark.mpi
def test_ranks_share_the_cache_without_races(on_ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("CFFEM_CACHE", str(tmp_path))
    assert f"modules: {TERMS}" in on_ranks(2, print_count, timeout=300)
