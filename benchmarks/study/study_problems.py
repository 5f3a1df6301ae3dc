# SPDX-License-Identifier: MIT
"""The studies of `cffem bench study`, as users write them: files in TOML, every option at its
default.

What a study asks (library, experiment, ε) is in the text; its size is in `Size`, so that the same
problem can be had small, as the benchmark measures it, and finer for its reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Size:
    """How finely a study is discretised.

    Attributes:
        h: the size of cells.
        degree: of the elements; multipliers and pressures have one less.
        steps: time steps, zero for a steady problem.
    """

    h: float
    degree: int
    steps: int = 0


@dataclass(frozen=True)
class StudyProblem:
    """One study.

    Attributes:
        title: what it is, in words.
        text: the study in TOML, with {h}, {degree}, {less} and {steps} to be filled in.
        size: what is measured.
        reference: what the verdicts are compared with.
        small: a size that only shows that everything runs.
        bump: whether its mesh is a file, that of a channel with a bump.
    """

    title: str
    text: str
    size: Size
    reference: Size
    small: Size
    bump: bool = False

    def write(self, folder: Path, size: Size) -> Path:
        """The study as a file, with the mesh that it names."""
        filled = self.text
        numbers = {"h": size.h, "degree": size.degree, "less": size.degree - 1}
        for name, value in {**numbers, "steps": size.steps}.items():
            filled = filled.replace(f"<{name}>", f"{value:g}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "study.toml"
        path.write_text(f'title = "{self.title}"\n{filled}')
        if self.bump:
            write_bump(folder / "bump.msh", size.h)
        return path


def write_bump(path: Path, h: float) -> None:
    """A channel (0, 3) × (0, 1) with a round bump of height 0.3 on its floor, as a mesh file."""
    from cffem.engine.mesh.mesh_shapes import gmsh_session

    with gmsh_session() as gmsh:
        geo = gmsh.model.geo
        corners = [(0, 0), (0.7, 0), (1, 0.3), (1.3, 0), (3, 0), (3, 1), (0, 1)]
        points = [geo.addPoint(px, py, 0, h) for px, py in corners]
        over = geo.addSpline([points[1], points[2], points[3]])
        ends = [(0, 1), (3, 4), (4, 5), (5, 6), (6, 0)]
        lines = [geo.addLine(points[a], points[b]) for a, b in ends]
        loop = geo.addCurveLoop([lines[0], over, *lines[1:]])
        surface = geo.addPlaneSurface([loop])
        geo.synchronize()
        gmsh.model.addPhysicalGroup(1, [lines[0], over, lines[1], lines[3]], name="walls")
        gmsh.model.addPhysicalGroup(1, [lines[4]], name="inlet")
        gmsh.model.addPhysicalGroup(1, [lines[2]], name="outlet")
        gmsh.model.addPhysicalGroup(2, [surface], name="fluid")
        gmsh.model.mesh.generate(2)
        gmsh.write(str(path))


def scalar(
    terms: Mapping[str, tuple[str, float]],
    shape: str,
    epsilon: float,
    *,
    anchor: str = "dt(u)",
    start: str = "",
    rest: str = "",
    end: float = 1.0,
) -> str:
    """A study of one scalar field that is held at zero on the boundary."""
    time = f"time = {{ end = {end}, steps = <steps> }}" if anchor else ""
    return "\n".join(
        [
            "[fields]",
            'u = "scalar"',
            "[library]",
            f'anchor = "{anchor}"' if anchor else 'unknown = "u"',
            *tables(terms),
            "[[experiments]]",
            f'mesh = {{ shape = "{shape}", h = <h> }}',
            'elements = { u = ["Lagrange", <degree>] }',
            f"initial = {{ {start} }}" if start else "",
            'boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }]',
            time,
            rest,
            "[certification]",
            f"epsilon = {epsilon}",
            "relative = true",
            "",
        ]
    )


def tables(terms: Mapping[str, tuple[str, float]], library: str = "library") -> list[str]:
    """Terms and coefficients of one equation as tables."""
    return [
        f"[{library}.terms]",
        *(f'{name} = "{text}"' for name, (text, _) in terms.items()),
        *(
            ["[coefficients]", *(f"{name} = {value}" for name, (_, value) in terms.items())]
            if library == "library"
            else []
        ),
    ]


PLANE = {
    "u": ("u", 0.3),
    "u_x": ("diff(u, x)", 0.2),
    "u_y": ("diff(u, y)", -0.1),
    "lap": ("lap(u)", 0.05),
    "graded": ("div((1 + x)*grad(u))", 0.01),
    "hill": ("sin(pi*x)*u", 0.02),
    "turning": ("y*diff(u, x) - x*diff(u, y)", 0.05),
    "xyu": ("x*y*u", 0.004),
}
PLANE_TEXT = scalar(PLANE, "square", 5e-3, start='u = "sin(pi*x)*sin(2*pi*y)"')
SOLID = {
    "u": ("u", 0.3),
    "u_x": ("diff(u, x)", 0.2),
    "lap": ("lap(u)", 0.05),
    "graded": ("div((1 + x*y)*grad(u))", 0.01),
    "zu": ("z*u", 0.02),
    "turning": ("y*diff(u, x) - x*diff(u, y)", 0.05),
}
ALLEN_CAHN = {
    "lap": ("lap(u)", 0.01),
    "growth": ("u", 1.0),
    "cube": ("-u**3", 1.0),
    "drift": ("diff(u, x)", 0.02),
    "slope": ("x*u", 0.01),
}
BURGERS = {
    "advection": ("-u*diff(u, x)", 1.0),
    "viscosity": ("lap(u)", 0.01),
    "damping": ("-u", 0.1),
    "crosswind": ("diff(u, y)", 0.02),
    "cubic": ("-u**3", 0.01),
}
HEAT = {
    "lap": ("lap(u)", 0.2),
    "u": ("u", 0.1),
    "u_x": ("diff(u, x)", 0.1),
    "u_y": ("diff(u, y)", 0.01),
    "xu": ("x*u", 0.3),
}
WAVE = {
    "lap": ("lap(u)", 1.0),
    "damping": ("-dt(u)", 0.1),
    "mass": ("-u", 0.5),
    "drift": ("diff(u, x)", 0.02),
    "graded": ("div(x*grad(u))", 0.05),
    "xu": ("-x*u", 0.002),
}
GRAY_SCOTT = """
[fields]
a = "scalar"
b = "scalar"
[libraries.a]
anchor = "dt(a)"
[libraries.a.terms]
spread = "lap(a)"
use = "-a*b**2"
feed = "1 - a"
[libraries.b]
anchor = "dt(b)"
[libraries.b.terms]
spread = "lap(b)"
gain = "a*b**2"
loss = "-b"
drift = "diff(b, x)"
[coefficients]
"a/spread" = 0.02
"a/use" = 1.0
"a/feed" = 0.04
"b/spread" = 0.01
"b/gain" = 1.0
"b/loss" = 0.1
"b/drift" = 0.001
[[experiments]]
mesh = { shape = "disk", h = <h> }
elements = { a = ["Lagrange", <degree>], b = ["Lagrange", <degree>] }
initial = { a = "1 - exp(-8*(x**2 + y**2))/2", b = "exp(-8*((x - 0.2)**2 + y**2))/2" }
boundary = [
  { type = "Neumann", field = "a", value = 0, on = "all" },
  { type = "Neumann", field = "b", value = 0, on = "all" },
]
time = { end = 2.0, steps = <steps> }
[certification]
epsilon = 1e-2
"""
FLOW_TERMS = """
[fields]
v = { vector = 2 }
p = "scalar"
[library]
<anchor>
[library.terms]
advection = "-dot(grad(v), v)"
viscosity = "lap(v)"
drag = "-v"
porous = "-x*v"
form = "-dot(v, v)*v"
[coefficients]
advection = 1.0
viscosity = 0.01
drag = 0.02
porous = 0.001
form = 0.03
[[experiments]]
mesh = "bump.msh"
elements = { v = ["Lagrange", <degree>] }
boundary = [
  { type = "Dirichlet", field = "v", value = ["4*y*(1 - y)<ramp>", 0], on = "inlet" },
  { type = "Dirichlet", field = "v", value = [0, 0], on = "walls" },
  { type = "Neumann", field = "v", value = [0, 0], on = "outlet" },
]
constraint = { type = "DivergenceFree", field = "v", multiplier = { p = ["Lagrange", <less>] } }
<time>
[certification]
epsilon = 5e-3
relative = true
"""
STEADY_FLOW = (
    FLOW_TERMS.replace("<anchor>", 'unknown = "v"').replace("<ramp>", "").replace("<time>", "")
)
FLOW = (
    FLOW_TERMS.replace("<anchor>", 'anchor = "dt(v)"')
    .replace("<ramp>", "*t")
    .replace("<time>", "initial = { v = [0, 0] }\ntime = { end = 1.0, steps = <steps> }")
)
CAVITY = """
[fields]
v = { vector = 2 }
p = "scalar"
T = "scalar"
[libraries.v]
anchor = "dt(v)"
[libraries.v.terms]
advection = "-dot(grad(v), v)"
viscosity = "lap(v)"
buoyancy = "T*grad(y)"
drag = "-v"
[libraries.T]
anchor = "dt(T)"
[libraries.T.terms]
advection = "-dot(v, grad(T))"
conduction = "lap(T)"
loss = "-T"
[coefficients]
"v/advection" = 1.0
"v/viscosity" = 0.02
"v/buoyancy" = 1.0
"v/drag" = 0.01
"T/advection" = 1.0
"T/conduction" = 0.02
"T/loss" = 0.001
[[experiments]]
mesh = { shape = "square", h = <h> }
elements = { v = ["Lagrange", <degree>], T = ["Lagrange", <degree>] }
initial = { v = [0, 0], T = "cos(pi*x)/2" }
boundary = [
  { type = "Dirichlet", field = "v", value = [0, 0], on = "all" },
  { type = "Dirichlet", field = "T", value = 0.5, on = "left" },
  { type = "Dirichlet", field = "T", value = -0.5, on = "right" },
  { type = "Neumann", field = "T", value = 0, on = ["top", "bottom"] },
]
constraint = { type = "DivergenceFree", field = "v", multiplier = { p = ["Lagrange", <less>] } }
time = { end = 1.0, steps = <steps> }
[certification]
epsilon = 1e-2
"""
MAXWELL = """
[fields]
E = { vector = 3 }
[library]
anchor = "dt(dt(E))"
[library.terms]
curls = "-curl(curl(E))"
damping = "-dt(E)"
mass = "-E"
dielectric = "-curl(x*curl(E))"
graded = "-z*E"
[coefficients]
curls = 1.0
damping = 0.05
mass = 0.3
dielectric = 0.1
graded = 0.01
[[experiments]]
mesh = { shape = "<shape>", h = <h> }
elements = { E = ["N1curl", <degree>] }
initial = { E = <start>, "dt(E)" = [0, 0, 0] }
boundary = [{ type = "Tangential", field = "E", value = [0, 0, 0], on = "all" }]
time = { end = 1.0, steps = <steps> }
[certification]
epsilon = 2e-2
relative = true
"""
BOX_START = '["sin(pi*y)*sin(pi*z)", "sin(pi*x)*sin(pi*z)/2", "0"]'
RING = "(1 - ((sqrt(x**2 + y**2) - 1)**2 + z**2)/0.16)"
RING_START = f'["-y*{RING}", "x*{RING}", "0"]'
INDUCTION = """
[fields]
B = { vector = 3 }
[library]
anchor = "dt(B)"
[library.terms]
resistivity = "-curl(curl(B))"
stretching = "curl(cross(sin(pi*y)*grad(x) + sin(pi*x)*grad(y), B))"
alpha = "curl(B)"
damping = "-B"
layered = "-curl(z*curl(B))"
[coefficients]
resistivity = 0.05
stretching = 0.5
alpha = 0.05
damping = 0.1
layered = 0.002
[[experiments]]
mesh = { shape = "box", h = <h> }
elements = { B = ["N1curl", <degree>] }
initial = { B = ["sin(pi*y)*sin(pi*z)", "sin(pi*x)*sin(pi*z)/2", "0"] }
boundary = [{ type = "Tangential", field = "B", value = [0, 0, 0], on = "all" }]
constraint = { type = "DivergenceFree", field = "B" }
time = { end = 0.5, steps = <steps> }
[certification]
epsilon = 2e-2
relative = true
"""
ELASTICITY = """
[fields]
w = { vector = 2 }
[library]
unknown = "w"
[library.terms]
shear = "lap(w)"
bulk = "grad(div(w))"
bed = "-w"
stiffening = "div(x*grad(w))"
graded = "-y*w"
[coefficients]
shear = 1.0
bulk = 2.0
bed = 0.5
stiffening = 0.1
graded = 0.1
[[experiments]]
mesh = { shape = "square", h = <h> }
elements = { w = ["Lagrange", <degree>] }
boundary = [{ type = "Dirichlet", field = "w", value = [0, 0], on = "all" }]
forcing = { w = ["sin(pi*x)", "-1"] }
[certification]
epsilon = 2e-2
relative = true
"""
PROBLEMS = {
    "plane": StudyProblem(
        "advection, diffusion and reaction with variable coefficients",
        PLANE_TEXT,
        Size(0.02, 2, 40),
        Size(0.016, 3, 100),
        Size(0.1, 2, 8),
    ),
    "plane-large": StudyProblem(
        "the same on a finer mesh",
        PLANE_TEXT,
        Size(0.0056, 2, 40),
        Size(0.016, 3, 100),
        Size(0.08, 2, 8),
    ),
    "solid": StudyProblem(
        "the same in space",
        scalar(SOLID, "box", 5e-3, start='u = "sin(pi*x)*sin(2*pi*y)*sin(pi*z)"'),
        Size(0.045, 2, 16),
        Size(0.06, 3, 40),
        Size(0.25, 2, 8),
    ),
    "gray-scott": StudyProblem(
        "Gray–Scott on a disk",
        GRAY_SCOTT,
        Size(0.06, 2, 20),
        Size(0.06, 3, 40),
        Size(0.2, 2, 8),
    ),
    "allen-cahn": StudyProblem(
        "Allen–Cahn",
        scalar(ALLEN_CAHN, "square", 5e-3, start='u = "sin(pi*x)*sin(2*pi*y)/2"'),
        Size(0.03, 2, 30),
        Size(0.024, 3, 75),
        Size(0.1, 2, 8),
    ),
    "burgers": StudyProblem(
        "Burgers with a layer",
        scalar(BURGERS, "square", 1e-2, start='u = "sin(2*pi*x)*sin(pi*y)"', end=0.6),
        Size(0.025, 2, 40),
        Size(0.025, 3, 80),
        Size(0.07, 2, 8),
    ),
    "flow-steady": StudyProblem(
        "Navier–Stokes past a bump, steady",
        STEADY_FLOW,
        Size(0.06, 2),
        Size(0.05, 3),
        Size(0.15, 2),
        bump=True,
    ),
    "flow": StudyProblem(
        "Navier–Stokes past a bump, 16 steps",
        FLOW,
        Size(0.08, 2, 16),
        Size(0.08, 3, 32),
        Size(0.2, 2, 4),
        bump=True,
    ),
    "cavity": StudyProblem(
        "Boussinesq cavity",
        CAVITY,
        Size(0.06, 2, 16),
        Size(0.06, 3, 32),
        Size(0.2, 2, 8),
    ),
    "maxwell": StudyProblem(
        "Maxwell in a box",
        MAXWELL.replace("<shape>", "box").replace("<start>", BOX_START),
        Size(0.14, 1, 20),
        Size(0.11, 2, 50),
        Size(0.3, 1, 8),
    ),
    "maxwell-large": StudyProblem(
        "Maxwell in a box, on a finer mesh",
        MAXWELL.replace("<shape>", "box").replace("<start>", BOX_START),
        Size(0.058, 1, 20),
        Size(0.11, 2, 50),
        Size(0.3, 1, 8),
    ),
    "maxwell-torus": StudyProblem(
        "Maxwell in a torus",
        MAXWELL.replace("<shape>", "torus").replace("<start>", RING_START),
        Size(0.11, 1, 20),
        Size(0.16, 2, 50),
        Size(0.35, 1, 8),
    ),
    "induction": StudyProblem(
        "induction with div B = 0",
        INDUCTION,
        Size(0.15, 1, 16),
        Size(0.13, 2, 40),
        Size(0.3, 1, 8),
    ),
    "elasticity": StudyProblem(
        "elasticity on a bed",
        ELASTICITY,
        Size(0.02, 2),
        Size(0.015, 3),
        Size(0.1, 2),
    ),
    "l-shape": StudyProblem(
        "heat on an L-shape with a singular corner",
        scalar(HEAT, "l_shape", 1e-2, start='u = "(1 - x**2)*(1 - y**2)*x*y"'),
        Size(0.05, 2, 30),
        Size(0.03, 3, 75),
        Size(0.2, 2, 8),
    ),
    "wave": StudyProblem(
        "scalar wave",
        scalar(
            WAVE,
            "square",
            1e-2,
            anchor="dt(dt(u))",
            start='u = "sin(pi*x)*sin(2*pi*y)", "dt(u)" = 0',
        ),
        Size(0.03, 2, 40),
        Size(0.024, 3, 100),
        Size(0.1, 2, 12),
    ),
}
