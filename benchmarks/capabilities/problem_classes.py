# SPDX-License-Identifier: MIT
"""Small problems of each class, written as studies in TOML."""

from __future__ import annotations


def study(
    fields: str,
    library: str,
    coefficients: str,
    experiment: str,
    observable: str,
) -> str:
    """The text of a study."""
    return (
        f"[fields]\n{fields}\n{library}\n[coefficients]\n{coefficients}\n[[experiments]]\n"
        f"{experiment}\n[certification]\nepsilon = 1e-3\neffort = 20\n"
        f'[observables.mean]\ntype = "Integral"\nexpr = "{observable}"\nat = "end"\n'
        "epsilon = 1e-3\n"
    )


def one(anchor: str, terms: dict[str, str], unknown: str = "") -> str:
    """The library of one equation."""
    head = f'anchor = "{anchor}"\n' if anchor else ""
    head += f'unknown = "{unknown}"\n' if unknown else ""
    lines = "\n".join(f'"{name}" = "{term}"' for name, term in terms.items())
    return f"[library]\n{head}[library.terms]\n{lines}"


def two(**equations: tuple[str, dict[str, str]]) -> str:
    """The libraries of a system."""
    parts = []
    for field, (anchor, terms) in equations.items():
        head = f'anchor = "{anchor}"\n' if anchor else ""
        lines = "\n".join(f'"{name}" = "{term}"' for name, term in terms.items())
        parts.append(f"[libraries.{field}]\n{head}[libraries.{field}.terms]\n{lines}")
    return "\n".join(parts)


def zero(field: str, kind: str = "Dirichlet", value: str = "0") -> str:
    """A condition on the whole boundary."""
    return f'boundary = [{{ type = "{kind}", field = "{field}", value = {value}, on = "all" }}]'


def scheme(name: str) -> str:
    """A window with a scheme."""
    return f'time = {{ end = 0.1, steps = 4, scheme = "{name}" }}'


SQUARE = 'mesh = { shape = "square", h = 0.25 }'
LINE = 'mesh = { shape = "interval", h = 0.05 }'
BOX = 'mesh = { shape = "box", h = 0.5 }'
TIME = "time = { end = 0.1, steps = 4 }"
UNEVEN = "time = { levels = [0, 0.01, 0.025, 0.045, 0.07, 0.1] }"
CHOSEN = 'time = { end = 0.1, steps = 2, scheme = "sdirk2", tolerance = 1e-4 }'
STANDING = 'initial = { u = "sin(pi*x)*sin(pi*y)", "dt(u)" = "0" }'
TORUS = (
    'boundary = [{ type = "Periodic", on = "right", to = "left" }, '
    '{ type = "Periodic", on = "top", to = "bottom" }]'
)
CUBE = (
    'boundary = [{ type = "Periodic", on = "right", to = "left" }, '
    '{ type = "Periodic", on = "top", to = "bottom" }, '
    '{ type = "Periodic", on = "front", to = "back" }]'
)
RING = 'boundary = [{ type = "Periodic", on = "right", to = "left" }]'
P2 = 'elements = { u = ["Lagrange", 2] }'
DG1 = 'elements = { u = ["DG", 1] }'
BUMP = 'initial = { u = "sin(pi*x)*sin(pi*y)" }'
SCALAR = 'u = "scalar"'
FLOW = 'initial = { v = ["sin(2*pi*x)*cos(2*pi*y)", "-cos(2*pi*x)*sin(2*pi*y)"] }'
FREE = 'constraint = { type = "DivergenceFree", field = "v" }'

CLASSES = {
    "steady diffusion–reaction": study(
        SCALAR, one("", {"lap": "lap(u)", "u": "-u"}, "u"), "lap = 1.0\nu = 1.0",
        "\n".join([SQUARE, P2, zero("u"), 'forcing = { u = "1" }']), "u",
    ),
    "parabolic": study(
        SCALAR, one("dt(u)", {"lap": "lap(u)", "u": "u"}), "lap = 0.1\nu = 0.5",
        "\n".join([SQUARE, P2, zero("u"), BUMP, TIME]), "u",
    ),
    "semilinear, steady": study(
        SCALAR, one("", {"lap": "lap(u)", "cubic": "-u**3"}, "u"), "lap = 1.0\ncubic = 1.0",
        "\n".join([SQUARE, P2, zero("u"), 'forcing = { u = "5" }']), "u",
    ),
    "wave": study(
        SCALAR, one("dt(dt(u))", {"lap": "lap(u)", "damping": "-dt(u)"}),
        "lap = 1.0\ndamping = 0.1",
        "\n".join([SQUARE, P2, zero("u"),
                   'initial = { u = "sin(pi*x)*sin(pi*y)", "dt(u)" = "0" }', TIME]), "u",
    ),
    "transport, DG": study(
        SCALAR, one("dt(u)", {"adv": "-diff(u, x)", "u": "-u"}), "adv = 1.0\nu = 0.1",
        "\n".join([SQUARE, DG1, zero("u"), BUMP, TIME]), "u",
    ),
    "diffusion, DG": study(
        SCALAR, one("dt(u)", {"lap": "lap(u)", "u": "-u"}), "lap = 0.1\nu = 0.1",
        "\n".join([SQUARE, DG1, zero("u"), BUMP, TIME]), "u",
    ),
    "advection–diffusion, DG": study(
        SCALAR, one("dt(u)", {"adv": "-diff(u, x)", "lap": "lap(u)"}), "adv = 1.0\nlap = 0.1",
        "\n".join([SQUARE, DG1, zero("u"), BUMP, TIME]), "u",
    ),
    "transport, SUPG": study(
        SCALAR, one("dt(u)", {"adv": "-diff(u, x)", "lap": "lap(u)"}), "adv = 1.0\nlap = 0.01",
        "\n".join([SQUARE, P2, 'stabilisation = { u = "SUPG" }', zero("u"), BUMP, TIME]), "u",
    ),
    "Burgers, DG": study(
        SCALAR, one("dt(u)", {"adv": "-u*diff(u, x)", "u": "-u"}), "adv = 1.0\nu = 0.1",
        "\n".join([LINE, DG1, zero("u"), 'initial = { u = "sin(pi*x)" }', TIME]), "u",
    ),
    "Burgers, DG, periodic": study(
        SCALAR, one("dt(u)", {"adv": "-u*diff(u, x)", "u": "-u"}), "adv = 1.0\nu = 0.1",
        "\n".join([LINE, DG1, RING, 'initial = { u = "sin(2*pi*x)" }', TIME]), "u**2",
    ),
    "shallow water, DG": study(
        'h = "scalar"\nq = "scalar"',
        two(h=("dt(h)", {"q": "-diff(q, x)"}),
            q=("dt(q)", {"flux": "-diff(q**2/h, x)", "pressure": "-diff(h**2/2, x)"})),
        '"h/q" = 1.0\n"q/flux" = 1.0\n"q/pressure" = 9.81',
        "\n".join([LINE, 'elements = { h = ["DG", 1], q = ["DG", 1] }', zero("q"),
                   'initial = { h = "1 + exp(-50*(x - 1/2)**2)/5", q = "0" }', TIME]), "h**2",
    ),
    "transport, DG, periodic": study(
        SCALAR, one("dt(u)", {"adv": "-diff(u, x)", "u": "-u"}), "adv = 1.0\nu = 0.1",
        "\n".join([LINE, DG1, RING, 'initial = { u = "sin(2*pi*x)" }', TIME]), "u",
    ),
    "advection–diffusion, periodic": study(
        SCALAR, one("dt(u)", {"adv": "-diff(u, x)", "lap": "lap(u)"}), "adv = 1.0\nlap = 0.1",
        "\n".join([SQUARE, P2, TORUS, 'initial = { u = "sin(2*pi*x)" }', TIME]), "u**2",
    ),
    "plate, clamped": study(
        SCALAR, one("", {"bending": "-lap(lap(u))", "u": "-u"}, "u"), "bending = 1.0\nu = 10.0",
        "\n".join([SQUARE, P2,
                   'boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }, '
                   '{ type = "Neumann", field = "u", value = 0, on = "all" }]',
                   'forcing = { u = "1" }']), "u",
    ),
    "plate, supported": study(
        SCALAR, one("", {"bending": "-lap(lap(u))", "u": "-u"}, "u"), "bending = 1.0\nu = 10.0",
        "\n".join([SQUARE, P2,
                   'boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }, '
                   '{ type = "Dirichlet", field = "lap(u)", value = 0, on = "all" }]',
                   'forcing = { u = "1" }']), "u",
    ),
    "Kuramoto–Sivashinsky": study(
        SCALAR,
        one("dt(u)", {"uux": "-u*diff(u, x)", "uxx": "-lap(u)", "uxxxx": "-lap(lap(u))"}),
        "uux = 1.0\nuxx = 0.02\nuxxxx = 1e-4",
        "\n".join([LINE, P2, RING, 'initial = { u = "sin(2*pi*x)" }', TIME]), "u**2",
    ),
    "Swift–Hohenberg": study(
        SCALAR,
        one("dt(u)", {"u": "u", "lap": "-lap(u)", "bending": "-lap(lap(u))", "cubic": "-u**3"}),
        "u = 0.3\nlap = 0.02\nbending = 1e-4\ncubic = 1.0",
        "\n".join([LINE, P2, RING, 'initial = { u = "sin(2*pi*x)" }', TIME]), "u**2",
    ),
    "Cahn–Hilliard": study(
        SCALAR, one("dt(u)", {"chemical": "lap(u**3 - u)", "bending": "-lap(lap(u))"}),
        "chemical = 0.1\nbending = 1e-3",
        "\n".join([LINE, P2,
                   'boundary = [{ type = "Neumann", field = "u", value = 0, on = "all" }, '
                   '{ type = "Neumann", field = "lap(u)", value = 0, on = "all" }]',
                   'initial = { u = "cos(pi*x)/4" }', TIME]), "u**2",
    ),
    "Korteweg–de Vries": study(
        SCALAR, one("dt(u)", {"uux": "-6*u*diff(u, x)", "uxxx": "-diff(u, x, 3)"}),
        "uux = 0.1\nuxxx = 1e-3",
        "\n".join([LINE, P2, RING, 'initial = { u = "sin(2*pi*x)" }', TIME]), "u**2",
    ),
    "squares of second derivatives": study(
        SCALAR, one("", {"lap": "lap(u)", "square": "lap(u)**2"}, "u"),
        "lap = 1.0\nsquare = 0.03",
        "\n".join([SQUARE, P2, zero("u"), 'forcing = { u = "1" }']), "u",
    ),
    "Navier–Stokes, Taylor–Hood": study(
        "v = { vector = 2 }",
        one("dt(v)", {"convection": "-dot(grad(v), v)", "viscosity": "lap(v)"}),
        "convection = 1.0\nviscosity = 0.05",
        "\n".join([SQUARE, 'elements = { v = ["Lagrange", 2] }', TORUS, FLOW, FREE, TIME]),
        "v[0]**2",
    ),
    "Stokes, RT, periodic": study(
        "v = { vector = 2 }", one("dt(v)", {"viscosity": "lap(v)", "drag": "-v"}),
        "drag = 1.0\nviscosity = 0.05",
        "\n".join([SQUARE, 'elements = { v = ["RT", 2] }', TORUS, FLOW, FREE, TIME]),
        "v[0]**2",
    ),
    "Maxwell, 3D": study(
        "E = { vector = 3 }\nB = { vector = 3 }",
        two(E=("dt(E)", {"curl": "curl(B)", "ohm": "-E"}), B=("dt(B)", {"curl": "-curl(E)"})),
        '"E/curl" = 1.0\n"E/ohm" = 0.2\n"B/curl" = 1.0',
        "\n".join([BOX, 'elements = { E = ["N1curl", 1], B = ["RT", 1] }',
                   'boundary = [{ type = "Tangential", field = "E", value = [0, 0, 0], '
                   'on = "all" }]',
                   'initial = { E = ["sin(pi*y)*sin(pi*z)", "0", "0"], B = ["0", "0", "0"] }',
                   TIME]),
        "E[0]**2",
    ),
    "Maxwell, 3D, periodic": study(
        "E = { vector = 3 }\nB = { vector = 3 }",
        two(E=("dt(E)", {"curl": "curl(B)", "ohm": "-E"}), B=("dt(B)", {"curl": "-curl(E)"})),
        '"E/curl" = 1.0\n"E/ohm" = 0.2\n"B/curl" = 1.0',
        "\n".join(['mesh = { shape = "box", h = 0.34 }',
                   'elements = { E = ["N1curl", 1], B = ["RT", 1] }', CUBE,
                   'initial = { E = ["sin(2*pi*z)", "0", "0"], B = ["0", "0", "0"] }', TIME]),
        "E[0]**2",
    ),
    "reaction–diffusion system": study(
        'u = "scalar"\nw = "scalar"',
        two(u=("dt(u)", {"lap": "lap(u)", "uw": "-u*w"}), w=("dt(w)", {"lap": "lap(w)",
                                                                       "uw": "u*w"})),
        '"u/lap" = 0.1\n"u/uw" = 1.0\n"w/lap" = 0.05\n"w/uw" = 1.0',
        "\n".join([SQUARE, 'elements = { u = ["Lagrange", 1], w = ["Lagrange", 1] }',
                   'boundary = [{ type = "Neumann", field = "u", value = 0, on = "all" }, '
                   '{ type = "Neumann", field = "w", value = 0, on = "all" }]',
                   'initial = { u = "1 + cos(pi*x)", w = "cos(pi*y)**2" }', TIME]),
        "u",
    ),
    "elasticity": study(
        "v = { vector = 2 }",
        one("", {"shear": "div(sym(grad(v)))", "bulk": "grad(div(v))"}, "v"),
        "shear = 2.0\nbulk = 1.0",
        "\n".join([SQUARE, 'elements = { v = ["Lagrange", 2] }', zero("v", value="[0, 0]"),
                   'forcing = { v = ["1", "0"] }']),
        "v[0]",
    ),
    "parabolic, steps that differ": study(
        SCALAR, one("dt(u)", {"lap": "lap(u)", "u": "u"}), "lap = 0.1\nu = 0.5",
        "\n".join([SQUARE, P2, zero("u"), BUMP, UNEVEN]), "u",
    ),
    "parabolic, chosen steps": study(
        SCALAR, one("dt(u)", {"lap": "lap(u)", "u": "u"}), "lap = 0.1\nu = 0.5",
        "\n".join([SQUARE, P2, zero("u"), BUMP, CHOSEN]), "u",
    ),
    "parabolic, sdirk3": study(
        SCALAR, one("dt(u)", {"lap": "lap(u)", "u": "u"}), "lap = 0.1\nu = 0.5",
        "\n".join([SQUARE, P2, zero("u"), BUMP, scheme("sdirk3")]), "u",
    ),
    "parabolic, sdirk4": study(
        SCALAR, one("dt(u)", {"lap": "lap(u)", "u": "u"}), "lap = 0.1\nu = 0.5",
        "\n".join([SQUARE, P2, zero("u"), BUMP, scheme("sdirk4")]), "u",
    ),
    "wave, steps that differ": study(
        SCALAR, one("dt(dt(u))", {"lap": "lap(u)", "damping": "-dt(u)"}),
        "lap = 1.0\ndamping = 0.1", "\n".join([SQUARE, P2, zero("u"), STANDING, UNEVEN]), "u",
    ),
    "wave, midpoint4": study(
        SCALAR, one("dt(dt(u))", {"lap": "lap(u)", "damping": "-dt(u)"}),
        "lap = 1.0\ndamping = 0.1",
        "\n".join([SQUARE, P2, zero("u"), STANDING, scheme("midpoint4")]), "u",
    ),
}  # fmt: skip
