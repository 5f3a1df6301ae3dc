# SPDX-License-Identifier: MIT
"""Alias groups that are there by construction, and whether sensors find them.

One mode of the heat equation cannot tell reaction from diffusion, on a mesh up to the
discretisation error, which the tolerance of the rank is to know of; a steady equation without
forcing fixes ratios only; plane Coriolis is a gradient on closed divergence-free flows, which the
pressure takes up; grad div vanishes on fields without divergence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cffem as cf
from benchmarks.sensors.sensor_families import BUMP, COMM, cavity, scalar, stokes, u
from cffem import lap, x, y

# Share of a column's energy that the discretisation of one mode leaves at most.
COARSE = 1e-5


def one_mode() -> tuple[Any, Any, dict[str, float]]:
    library, experiment = scalar({"u": u, "lap": lap(u), "u^2": u**2}, BUMP, 0.5)
    return library, experiment, {"u": 0.4, "lap": 0.05}


def ratios() -> tuple[Any, Any, dict[str, float]]:
    library = cf.Library(terms={"lap": lap(u), "u": -u, "u_x": u.diff(x)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.15),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 1 + x * y)],
    )
    return library, experiment, {"lap": 0.2, "u": 1.0, "u_x": 0.3}


def aliases(board: Any) -> None:
    """All constructed cases."""
    cases = (
        ("one mode of the heat equation", *one_mode(), {"u", "lap"}, ""),
        ("a steady equation without forcing", *ratios(), {"lap", "u", "u_x"}, "scale"),
        (
            "plane Coriolis in a closed flow",
            *stokes(),
            {"viscosity": 0.05, "friction": 0.5},
            {"Coriolis"},
            "",
        ),
        ("grad div in a cavity", *cavity(), {"curl curl": 1.0, "damping": 0.4}, {"grad div"}, ""),
    )
    for name, library, experiment, truth, wanted, label in cases:
        points = np.random.default_rng(5).uniform(0.1, 0.9, (8, 2))
        with cf.Model(library, truth, experiment) as model:
            sensors = cf.Sensors(points, list(library.unknowns), noise=0.01)
            design = model.sensitivities(sensors)
            groups = design.alias_groups(tolerance=COARSE if "mode" in name else None)
        found = [set(group.terms) for group in groups]
        right = found == [wanted] and groups[0].name == label
        board.aliases.append(
            {"case": name, "right": bool(right), "found": [str(group) for group in groups]}
        )
        board.line(
            f"alias group, {name}: {'; '.join(map(str, groups)) or 'none'}"
            f"{'' if right else '  WRONG'}"
        )
