# SPDX-License-Identifier: MIT
"""The only module that knows DOLFINx versions; it probes features, never version numbers.

It also owns just-in-time compilation: where compiled forms are kept (a folder of their own for each
environment, so that a home folder shared by machines is safe) and how a compilation that was killed
half-way is cleaned up instead of waited for.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import inspect
import logging
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cffi

from cffem._guard import private_folder
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import ufl
    from basix.ufl import _ElementBase
    from dolfinx import fem
    from dolfinx.fem import CoordinateElement
    from dolfinx.mesh import Mesh
    from mpi4py import MPI
    from petsc4py import PETSc
    from ufl.core.expr import Expr


log = logging.getLogger("cffem")

# The four middle ones let the compiler regroup sums of products, by which kernels of high degree
# become up to eight times as fast (the curl–curl form of N1curl 4: 0.60 to 0.07 s). NaN and
# infinity keep their meaning; nothing depends on the processor.
COMPILE_FLAGS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-g0",
]


def cache_folder() -> Path:
    """The user's cache folder for cffem; `CFFEM_CACHE` overrides it.

    Code that was compiled is loaded from there, so it is never a folder below the current one,
    which may be a stranger's. Where there is no home, or it cannot be written, the folder is one of
    this user's own for temporary files.
    """
    given = os.environ.get("CFFEM_CACHE")
    if given is not None:
        if not os.path.isabs(given):
            raise InputError(f"CFFEM_CACHE must be an absolute path, not {given!r}")
        return Path(given)
    above = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(above if os.path.isabs(above) else Path.home() / ".cache") / "cffem"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        log.debug("there is no home that can be written")
    return private_folder()


@cache
def jit_folder() -> Path:
    """Where compiled forms of this environment are kept."""
    import basix
    import dolfinx
    import ffcx
    import ufl

    parts = [
        dolfinx.__version__,
        dolfinx.__file__,
        ffcx.__version__,
        basix.__version__,
        ufl.__version__,
        sys.version,
        platform.machine(),
    ]
    key = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]
    return cache_folder() / "jit" / f"dolfinx-{dolfinx.__version__}-{key}"


def shelf(compiled: Any) -> Path:
    """The folder of a form or of an expression, (expression, points), below `jit_folder`.

    FFCx lists the whole folder whenever it loads a module, which takes longer than the loading once
    there are thousands; on 256 shelves it does not.
    """
    import numpy as np
    import ufl

    match compiled:
        case ufl.Form():
            words = compiled.signature()
        case (expression, points):
            words = f"{expression.ufl_shape} {np.shape(points)} {np.asarray(points).tolist()}"
        case _:
            words = ""
    return jit_folder() / hashlib.sha256(words.encode()).hexdigest()[:2]


def jit_options(folder: Path) -> dict[str, object]:
    """Options for every compilation. All are given, so that no file in the current folder can
    change how code is compiled.
    """
    return {
        "cache_dir": str(folder),
        "cffi_extra_compile_args": list(COMPILE_FLAGS),
        "cffi_libraries": None,
        "timeout": 120,
    }


@contextlib.contextmanager
def jit_lock(comm: MPI.Comm, folder: Path) -> Iterator[None]:
    """Hold a share of a folder's compilation lock on rank 0, having removed what a killed
    compilation left behind.

    FFCx marks a module that is being compiled by an empty source file and lets everybody else wait
    for it, for ever where its compiler was killed. Whoever compiles holds a shared lock; who gets
    the exclusive one knows that nobody does, so every unfinished module is a left-over.
    """
    if comm.rank != 0:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a") as handle:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_unfinished(folder)
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield


# When the folder of compiled forms last changed, as far as it was looked through.
_LOOKED_THROUGH: dict[Path, int] = {}


def _remove_unfinished(folder: Path) -> None:
    """Remove modules whose compilation did not end; nobody compiles now. A folder that has
    not changed since is not read again.
    """
    changed = folder.stat().st_mtime_ns
    if _LOOKED_THROUGH.get(folder) == changed:
        return
    # One listing: asking for each file by itself takes longer than loading a form, once there are
    # thousands.
    names = set(os.listdir(folder))
    unfinished = [name for name in names if name.endswith(".c") and f"{name}.cached" not in names]
    for name in unfinished:
        (folder / name).unlink(missing_ok=True)
    if not unfinished:
        _LOOKED_THROUGH[folder] = changed


class CompilationError(InputError):
    """The C compiler could not do its work on this machine."""


@contextlib.contextmanager
def compiling(comm: MPI.Comm, compiled: Any) -> Iterator[dict[str, object]]:
    """Compile under the lock, with the options that are given; a compiler that fails for want of
    room or of itself is told as such, on all ranks alike.
    """
    folder = shelf(compiled)
    try:
        with jit_lock(comm, folder):
            yield jit_options(folder)
    except Exception as error:
        # In serial the compiler's own error arrives; on several ranks DOLFINx tells all of them in
        # its words.
        if not isinstance(
            error, OSError | cffi.VerificationError
        ) and "just-in-time compilation" not in str(error):
            raise
        said = " ".join(str(error).split())
        raise CompilationError(
            f"a form could not be compiled: {said}; look whether {jit_folder()} and the folder "
            "for temporary files have room, and "
            "whether cffem doctor finds a compiler"
        ) from error


def form(ufl_form: ufl.Form, comm: MPI.Comm, **kwargs: Any) -> fem.Form:
    """`dolfinx.fem.form` with this project's options; collective over `comm`."""
    from dolfinx import fem

    tagged = one_rule_per_part(with_common_tags(ufl_form))
    with compiling(comm, tagged) as options:
        return fem.form(tagged, jit_options=options, **kwargs)


def with_common_tags(ufl_form: ufl.Form) -> ufl.Form:
    """A form whose integrals of one kind all carry the tags that some of them need: DOLFINx takes
    one set of tags for each kind, and a sum of forms may have integrals without any.
    """
    import ufl

    if not isinstance(ufl_form, ufl.Form):
        return ufl_form
    tags: dict[object, object] = {}
    for integral in ufl_form.integrals():
        if integral.subdomain_data() is not None:
            key = (integral.ufl_domain(), integral.integral_type())
            tags.setdefault(key, integral.subdomain_data())
    bare = [i for i in ufl_form.integrals() if i.subdomain_data() is None]
    if not any((i.ufl_domain(), i.integral_type()) in tags for i in bare):
        return ufl_form
    return ufl.Form(
        [
            i.reconstruct(subdomain_data=tags.get((i.ufl_domain(), i.integral_type())))
            if i.subdomain_data() is None
            else i
            for i in ufl_form.integrals()
        ]
    )


def one_rule_per_part(ufl_form: ufl.Form) -> ufl.Form:
    """The form with one degree of quadrature for all integrals over the same part of the boundary.

    UFL joins equal integrals over several parts, and where other integrals over one of these parts
    have another degree, two kernels have the number of that part, of which DOLFINx assembles one
    twice.
    """
    import ufl

    key, integrals = "quadrature_degree", list(getattr(ufl_form, "integrals", list)())
    degrees: dict[Any, set[int]] = {}
    for integral in integrals:
        if integral.integral_type() == "exterior_facet" and key in integral.metadata():
            degrees.setdefault(integral.subdomain_id(), set()).add(integral.metadata()[key])
    if len(degrees) < 2 or all(len(found) == 1 for found in degrees.values()):
        return ufl_form
    return ufl.Form(
        [
            integral.reconstruct(
                metadata={**integral.metadata(), key: max(degrees[integral.subdomain_id()])}
            )
            if integral.integral_type() == "exterior_facet" and key in integral.metadata()
            else integral
            for integral in integrals
        ]
    )


def expression(ufl_expression: Expr, points: np.ndarray, comm: MPI.Comm) -> fem.Expression:
    """`dolfinx.fem.Expression` with this project's options; collective over `comm`."""
    from dolfinx import fem

    with compiling(comm, (ufl_expression, points)) as options:
        return fem.Expression(ufl_expression, points, comm=comm, jit_options=options)


@cache
def keep_cells() -> None:
    """Let Basix's elements keep their UFL cells, which never change but are made anew
    whenever UFL asks for one, at every step.
    """
    import basix.ufl

    base = getattr(basix.ufl, "_ElementBase", None)
    made = getattr(getattr(base, "cell", None), "fget", None)
    if base is None or made is None:  # it is not made that way in this version
        return

    def cell(element: _ElementBase) -> ufl.Cell:
        """Cell of the finite element."""
        if "_cffem_cell" not in element.__dict__:
            element._cffem_cell = made(element)
        return element._cffem_cell

    base.cell = property(cell)


def interpolate_nonmatching(function: fem.Function, value: fem.Function) -> int:
    """Give a function the values of one on another mesh; how many of its points lie outside of that
    mesh, collective.
    """
    import numpy as np
    from dolfinx import fem
    from mpi4py import MPI

    space, other = function.function_space, value.function_space
    ranks = MPI.Comm.Compare(space.mesh.comm, other.mesh.comm)
    if ranks not in (MPI.IDENT, MPI.CONGRUENT) and other.mesh.comm.size > 1:
        raise InputError(
            f"{value.name} lives on {other.mesh.comm.size} ranks, the mesh that it is interpolated "
            f"onto on {space.mesh.comm.size} others; make both meshes on one communicator"
        )
    index_map = space.mesh.topology.index_map(space.mesh.topology.dim)
    cells = np.arange(index_map.size_local + index_map.num_ghosts, dtype=np.int32)
    size = float(np.ptp(other.mesh.geometry.x, axis=0).max(initial=0.0))
    size = other.mesh.comm.allreduce(size, op=MPI.MAX)

    plan = fem.create_interpolation_data(space, other, cells, 1e-9 * size)
    function.interpolate_nonmatching(value, cells, plan)
    function.x.scatter_forward()
    # Of the points of all cells, those that no cell of the other mesh owns.
    owners = plan.src_owner() if callable(plan.src_owner) else plan.src_owner
    return int(space.mesh.comm.allreduce(int((np.asarray(owners) < 0).sum())))


def interpolation_points(space: fem.FunctionSpace) -> np.ndarray:
    """Interpolation points of a space's element: a method in 0.9, a property later."""
    points = space.element.interpolation_points
    return points() if callable(points) else points


def create_matrix(form: fem.Form) -> PETSc.Mat:
    """An empty PETSc matrix with the sparsity pattern of a form; the caller owns it."""
    from dolfinx.fem import petsc

    return petsc.create_matrix(form)


def assemble_matrix(
    form: fem.Form,
    bcs: Sequence[fem.DirichletBC] = (),
    diagonal: float = 1.0,
    matrix: PETSc.Mat = None,
) -> PETSc.Mat:
    """Assemble a PETSc matrix, into an existing one where it is given; the caller owns it."""
    from dolfinx.fem import petsc

    bcs = list(bcs)
    into_existing = getattr(petsc, "assemble_matrix_mat", petsc.assemble_matrix)
    keyword = (
        "diag"
        if "diag" in inspect.signature(petsc.assemble_matrix.__wrapped__).parameters
        else "diagonal"
    )
    if matrix is None:
        matrix = create_matrix(form)
    else:
        matrix.zeroEntries()
    into_existing(matrix, form, bcs=bcs, **{keyword: diagonal})
    matrix.assemble()
    return matrix


def cell_name(domain: Mesh) -> str:
    """Name of a UFL domain's cell: a method in older UFL, a property later."""
    name = domain.ufl_cell().cellname
    return name() if callable(name) else name


def geometric_dimension(domain: Mesh) -> int:
    """Geometric dimension of a UFL domain: a method in older UFL, a property later."""
    dimension = domain.geometric_dimension
    return dimension() if callable(dimension) else dimension


def collapsed(space: fem.FunctionSpace, index: int) -> tuple[fem.FunctionSpace, np.ndarray]:
    """A space of its own for sub-space `index`, and a flat array of its local dofs in the parent.

    DOLFINx 0.9 collapses vectors of Lagrange elements of degree three and more wrongly: where two
        cells see their common edge in
    opposite directions, the collapsed space has the edge's unknowns in the order of one of them for
    both. So the space is made anew and matched with the parent cell by cell, where both list their
    unknowns in the order of the reference cell.
    """
    import numpy as np
    from dolfinx import fem

    sub = space.sub(index)
    own = fem.functionspace(space.mesh, sub.ufl_element())
    block, imap = own.dofmap.index_map_bs, own.dofmap.index_map
    ours = own.dofmap.list[:, :, None] * block + np.arange(block)
    theirs = sub.dofmap.list[:, :, None] * sub.dofmap.bs + np.arange(sub.dofmap.bs)
    dofs = np.full((imap.size_local + imap.num_ghosts) * block, -1, dtype=np.int32)
    dofs[ours.ravel()] = theirs.ravel()
    return own, dofs


def bare(wrapped: Any) -> Any:
    """The C++ object behind a Python one, or itself: topologies are wrapped in some places only."""
    return getattr(wrapped, "_cpp_object", wrapped)


def cell_geometry(mesh: Mesh) -> tuple[np.ndarray, int]:
    """Geometry nodes of the local cells and the degree of the geometry: single objects in 0.9
    and 0.10, lists later.
    """
    geometry = mesh.geometry
    dofmap = geometry.dofmaps[0] if hasattr(geometry, "cmaps") else geometry.dofmap
    return dofmap, coordinate_map(mesh).degree


def coordinate_map(mesh: Mesh) -> CoordinateElement:
    """The element of the geometry: a single object in 0.9 and 0.10, in a list later."""
    geometry = mesh.geometry
    return geometry.cmaps[0] if hasattr(geometry, "cmaps") else geometry.cmap


def straight_simplices(mesh: Mesh) -> bool:
    """Whether all cells are straight intervals, triangles or tetrahedra."""
    return (
        mesh.topology.cell_name() in ("interval", "triangle", "tetrahedron")
        and cell_geometry(mesh)[1] == 1
    )


def cell_partitioner(ghost_mode: Any) -> Any:
    """The default partitioner of cells; newer DOLFINx also asks how many cells may share a
    facet.
    """
    from dolfinx.mesh import create_cell_partitioner

    try:
        return create_cell_partitioner(ghost_mode)
    except TypeError:
        return create_cell_partitioner(ghost_mode, 2)


def refined(mesh: Mesh, cells: np.ndarray | None = None) -> tuple[Mesh, np.ndarray]:
    """A refined mesh of simplices, and the parent of each of its cells; children stay on their
    parent's rank.

    Args:
        mesh: the mesh.
        cells: this rank's cells of which all edges are halved, and as few others as possible; None:
            all cells.
    """
    from dolfinx.mesh import RefinementOption, compute_incident_entities, refine

    mesh.topology.create_entities(1)
    edges = None
    if cells is not None:
        mesh.topology.create_connectivity(mesh.topology.dim, 1)
        mesh.topology.create_connectivity(1, mesh.topology.dim)
        edges = compute_incident_entities(mesh.topology, cells, mesh.topology.dim, 1)
    options = {"partitioner": None, "option": RefinementOption.parent_cell}
    finer, parents = refine(mesh, edges, **options)[:2]
    # The parents come in the order in which cells were made, which is not the order in which the
    # new mesh numbers them.
    before = mesh.comm.exscan(len(parents)) or 0
    return finer, parents[finer.topology.original_cell_index - before]


def exterior_facets(mesh: Mesh) -> np.ndarray:
    """This rank's facets on the boundary of the domain; collective.

    The facets of an interval are its vertices, and DOLFINx does not know which of them two ranks
    share: without ghost cells, as refinement makes meshes, it takes the end of each rank's part for
    a boundary (https://github.com/FEniCS/dolfinx/pull/4525). There the cells at a vertex are
    counted on all ranks.
    """
    import numpy as np
    from dolfinx import la
    from dolfinx.mesh import exterior_facet_indices

    topology, dimension = mesh.topology, mesh.topology.dim
    topology.create_connectivity(dimension - 1, dimension)
    if dimension > 1:
        return exterior_facet_indices(topology)
    owned = topology.index_map(1).size_local
    count = la.vector(topology.index_map(0), 1)
    np.add.at(count.array, topology.connectivity(1, 0).array[: 2 * owned], 1.0)
    count.scatter_reverse(la.InsertMode.add)
    here = count.array[: topology.index_map(0).size_local]
    return np.flatnonzero(np.abs(here - 1.0) < 0.5).astype(np.int32)
