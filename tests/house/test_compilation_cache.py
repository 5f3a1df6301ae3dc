"""The cache of compiled forms: one folder per environment, shared by processes, healed after
a killed compilation.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from cffem import _compat


def test_the_folder_is_keyed_by_the_environment_and_obeys_the_cache_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("CFFEM_CACHE", str(tmp_path))
    import dolfinx

    assert dolfinx.__version__ in _compat.jit_folder.__wrapped__().name
    assert _compat.jit_folder.__wrapped__().is_relative_to(tmp_path)


def test_a_file_in_the_current_folder_cannot_change_how_code_is_compiled():
    from dolfinx import jit

    given = _compat.jit_options(_compat.jit_folder())
    assert set(given) >= {"cache_dir", "cffi_extra_compile_args", "cffi_libraries"}
    assert jit.get_options(dict(given))["cffi_extra_compile_args"] == _compat.COMPILE_FLAGS


def test_forms_that_are_the_same_are_on_the_same_shelf_whatever_their_numbers():
    import ufl
    from dolfinx import fem, mesh
    from mpi4py import MPI

    def mass(n: int, constant: bool):
        domain = mesh.create_unit_interval(MPI.COMM_SELF, n)
        factor = fem.Constant(domain, 2.0) if constant else 2.0
        return factor * ufl.TestFunction(fem.functionspace(domain, ("Lagrange", 1))) * ufl.dx

    shelf = _compat.shelf(mass(4, True))
    assert shelf == _compat.shelf(mass(5, True)) != _compat.shelf(mass(4, False))
    assert shelf.parent == _compat.jit_folder()


def compile_one_form(comm, folder: str):
    """Compile a form into a cache folder."""
    import os

    os.environ["CFFEM_CACHE"] = folder
    import ufl
    from dolfinx import fem, mesh

    space = fem.functionspace(mesh.create_unit_interval(comm, 4), ("Lagrange", 1))
    _compat.form(7 * ufl.TestFunction(space) * ufl.dx, comm)


@pytest.mark.mpi
def test_a_killed_compilation_is_repeated_not_waited_for(on_ranks, tmp_path):
    on_ranks(2, compile_one_form, str(tmp_path))
    (marker,) = tmp_path.rglob("*forms*.c.cached")
    marker.unlink()
    on_ranks(2, compile_one_form, str(tmp_path), timeout=60)
    assert marker.exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("Failed just-in-time compilation: no gcc"),
    ],
)
def test_a_compiler_that_fails_is_told_in_a_sentence(monkeypatch, error):
    from dolfinx import fem
    from mpi4py import MPI

    def fails(*arguments, **options):
        raise error

    monkeypatch.setattr(fem, "form", fails)
    with pytest.raises(
        _compat.CompilationError,
        match=r"a form could not be compiled: .*; look whether .* have room",
    ):
        _compat.form(None, MPI.COMM_SELF)
    error.args = ("another error",)
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match="another error"):
            _compat.form(None, MPI.COMM_SELF)


def test_the_compiler_flags_do_not_depend_on_the_machine():
    assert not any("native" in flag for flag in _compat.COMPILE_FLAGS)


def test_an_element_keeps_the_cell_that_it_would_make_anew():
    import basix.ufl
    import ufl

    _compat.keep_cells()
    element = basix.ufl.element("N1curl", "tetrahedron", 2)
    assert element.cell is element.cell
    assert element.cell == ufl.Cell("tetrahedron") != basix.ufl.element("P", "triangle", 1).cell
