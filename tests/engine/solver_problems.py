"""Steady problems of the classes that have a solver preset, on meshes of any size."""

from __future__ import annotations

import sympy as sp
from dolfinx import mesh

import cffem as cf
from cffem import x, y

u = cf.ScalarField("u")
pressure = cf.ScalarField("p")


def box(comm, n, dim):
    return mesh.create_unit_cube(comm, n, n, n) if dim == 3 else mesh.create_unit_square(comm, n, n)


def poisson(comm, n, options=None, dim=2, degree=1, drift=0.0, **coefficients):
    """−Δu + u + drift · u_x = f, symmetric for drift = 0."""
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "drift": u.diff(x)}, unknown=u)
    experiment = cf.Experiment(
        mesh=box(comm, n, dim),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: sp.exp(x) * sp.cos(3 * y)},
    )
    return cf.Model(
        library,
        {"lap": 1.0, "u": -1.0, "drift": drift, **coefficients},
        experiment,
        petsc_options=options,
    )


def curl_curl(comm, n, options=None, dim=3, degree=1, beta=1.0):
    """curl curl E + β E = f with vanishing tangential trace."""
    field = cf.VectorField("E", dim=dim)
    library = cf.Library(terms={"curl": cf.curl(cf.curl(field)), "mass": field}, unknown=field)
    experiment = cf.Experiment(
        mesh=box(comm, n, dim),
        elements={field: ("N1curl", degree)},
        boundary=[cf.Tangential(field, 0)],
        forcing={field: (sp.cos(3 * y), sp.exp(x), sp.sin(x * y))[:dim]},
    )
    return cf.Model(library, {"curl": -1.0, "mass": -beta}, experiment, petsc_options=options)


def stokes(comm, n, options=None, dim=2, viscosity=1.0, window=None):
    """−ν Δv + v + ∇p = f, div v = 0 in a closed box, Taylor–Hood elements; with a window the
    instationary problem.
    """
    velocity = cf.VectorField("v", dim=dim)
    anchor = None if window is None else cf.dt(velocity)
    library = cf.Library(
        anchor=anchor, terms={"lap": cf.lap(velocity), "drag": velocity}, unknown=velocity
    )
    experiment = cf.Experiment(
        mesh=box(comm, n, dim),
        elements={velocity: ("Lagrange", 2), pressure: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(velocity, 0)],
        initial={} if window is None else {velocity: (0,) * dim},
        time=window,
        constraint=cf.DivergenceFree(velocity, multiplier={pressure: ("Lagrange", 1)}),
        forcing={velocity: (sp.sin(3 * y) * sp.exp(x), sp.exp(x), sp.sin(x * y))[:dim]},
    )
    return cf.Model(library, {"lap": viscosity, "drag": -1.0}, experiment, petsc_options=options)
