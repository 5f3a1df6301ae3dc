"""The hall, the two wings and the roof: who may import whom, and that DOLFINx stays in its wing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cffem"
FINITE_ELEMENT_WING = ["symbols", "forms", "engine", "constraints", "bounds"]
DATA_WING = ["symbols", "data", "design", "screening", "verdicts"]
ROOF = ["study", "validation", "commands", "scripts", "doctor", "cli"]
# constraints and bounds stand side by side on the engine.
SIDE_BY_SIDE = {
    ("constraints", "bounds"),
    ("bounds", "constraints"),
    ("verdicts", "design"),
    ("verdicts", "screening"),
    ("verdicts", "data"),
}
FINITE_ELEMENTS = {"basix", "dolfinx", "ffcx", "gmsh", "mpi4py", "petsc4py", "slepc4py", "ufl"}
MAY_USE = {
    "symbols": {"sympy", "numpy", "scipy"},
    "forms": {"sympy", "ufl", "basix"},
}


def imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.lineno, node.module))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
    return found


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def allowed(here: str, there: str) -> bool:
    if here == there or (here in ROOF and there not in ROOF):
        return True
    if here in ROOF:
        return ROOF.index(there) <= ROOF.index(here)
    if (here, there) in SIDE_BY_SIDE:
        return False
    return any(
        here in wing and there in wing and wing.index(there) <= wing.index(here)
        for wing in (FINITE_ELEMENT_WING, DATA_WING)
    )


FILES = sorted(PACKAGE.rglob("*.py"))


def test_no_upward_or_sideways_imports():
    known = {*FINITE_ELEMENT_WING, *DATA_WING, *ROOF}
    wrong = []
    for path in FILES:
        here = room(path)
        for line, module in imports(path):
            parts = module.split(".")
            if (
                here in known
                and parts[0] == "cffem"
                and len(parts) > 1
                and parts[1] in known
                and not allowed(here, parts[1])
            ):
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


# Sub-rooms and modules of one room, the lower ones first.
LAYERS = {
    "symbols": ["algebra", "parser", "problem"],
    "data": ["noise", "rows", "readers"],
    "engine": [
        *("collective", "solve_errors", "notes", "observer", "mesh", "store", "solve", "inputs"),
        *("assembly", "norms", "time", "rows", "solution", "observed", "steady", "response"),
        *("deletion", "model", "calibration"),
    ],
    "bounds": [
        *("certificate", "changed", "refits", "scalar_problem", "geometry", "enclosed", "flux"),
        *(
            "elliptic",
            "variable",
            "evolving",
            "flow",
            "parabolic",
            "waves",
            "curves",
            "levels",
            "representation",
        ),
        *(
            "certifiers",
            "later_bars",
            "entrance",
            "supplied_fields",
            "dual_weighted",
            "observable_bounds",
            "observation_bounds",
            "refining",
        ),
    ],
}


def for_annotations(tree: ast.Module) -> set[int]:
    """The lines that only type checkers read: a function may name the type of what it is given."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def place(module: str, name: str) -> str | None:
    """The sub-room or module of a room that a dotted name stands for."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["cffem", name] and len(parts) > 2 else None


@pytest.mark.parametrize("name", LAYERS)
def test_sub_rooms_import_downwards(name):
    order, wrong = LAYERS[name], []
    for path in (PACKAGE / name).rglob("*.py"):
        here = path.relative_to(PACKAGE / name).parts[0].removesuffix(".py")
        silent = for_annotations(ast.parse(path.read_text()))
        for line, module in imports(path):
            there = place(module, name)
            if line in silent or here not in order or there not in order:
                continue
            if order.index(there) > order.index(here):
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["engine", "bounds"])
def test_every_module_has_its_layer(name):
    here = {p.name.removesuffix(".py") for p in (PACKAGE / name).iterdir()}
    assert {n for n in here if not n.startswith("_")} == {*LAYERS[name]}


def test_third_party_imports_stay_in_their_room():
    wrong = []
    for path in FILES:
        here = room(path)
        for line, module in imports(path):
            base = module.split(".")[0]
            if here in MAY_USE and base not in MAY_USE[here] | set(sys.stdlib_module_names) | {
                "cffem"
            }:
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}")
            if here in DATA_WING and base in FINITE_ELEMENTS:
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def without_finite_elements(code: str) -> subprocess.CompletedProcess[str]:
    program = BLOCKED.format(names=FINITE_ELEMENTS) + code
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent
    )


FITTING = {"numpy", "scipy", "sympy"}
SOLVING = FITTING | {"dolfinx", "ufl", "petsc4py", "mpi4py"}
HEAVY = SOLVING | {"sklearn", "pandas", "xarray", "matplotlib", "pyvista", "rich"}


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import cffem", set()),
        ("import cffem; dir(cffem), cffem.__version__", set()),
        ("from cffem.cli import main; main(['--help'])", set()),
        ("from cffem import x, dt, lap, Library, ScalarField, parse, delete", {"sympy"}),
        ("from cffem import Dataset, Design, decide", FITTING),
        ("from cffem import Model, Experiment, Dirichlet", SOLVING),
    ],
)
def test_start_up_imports_nothing_that_is_not_needed_yet(code, allowed):
    """Start-up is quick because of what it leaves alone; a clock would only tell how busy the
    machine is.
    """
    if "dolfinx" in allowed:
        pytest.importorskip("dolfinx")
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\nprint(*sorted({HEAVY} & "
        "set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.splitlines()[-1].split()) <= allowed


def test_the_data_wing_works_without_dolfinx():
    done = without_finite_elements(
        "import cffem as cf, numpy as np\n"
        "A = np.random.default_rng(0).standard_normal((500, 4))\n"
        "design = cf.Design.from_matrix(A, A @ [1.0, 0, -2.0, 0], list('abcd'))\n"
        "print([bool(s) for s in cf.Screening().fit(design).support_], cf.decide(1.0, 0.1, "
        "margin=0.01))\n"
    )
    assert done.stdout.strip() == "[True, False, True, False] relevant", done.stderr


@pytest.mark.parametrize("name", ["Model", "mesh"])
def test_what_needs_dolfinx_says_how_to_get_it(name):
    done = without_finite_elements(
        f"import cffem as cf\ntry: cf.{name}\nexcept ImportError as error: print(error)"
    )
    assert done.stdout.count("\n") == 1, done.stderr
    assert "containers/run" in done.stdout
    assert "conda-forge" in done.stdout
