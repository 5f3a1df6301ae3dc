"""Reports of several kinds, made without solving: known coefficients, screened from data,
hostile names.
"""

from __future__ import annotations

import math

import numpy as np

import cffem
from cffem.design.design import Design
from cffem.screening.screening import Screening
from cffem.study.report.drawn_fields import Fields
from cffem.study.report.report import Report, TermReport

HOSTILE = '<script>alert("1")</script>'
PROOF = {
    "inequality": "|δ − δ̂| ≤ ‖e_f − e_j‖ ≤ 0.004",
    "formula": r"|\delta-\hat\delta|\leq 0.004",
    "hypotheses": [["Ω is convex", "by its edges"], ["the diffusion is positive", "D = 0.05"]],
    "constants": {"Friedrichs constant": 0.225, "largest time step": 0.05},
    "cost": {"seconds": 0.4, "local problems": 242.0},
}


def scope(names, epsilon=0.01, **more):
    return {
        "library": {name: f"T_{k}(u)" for k, name in enumerate(names)},
        "experiment": experiment(),
        "experiments": {"experiment 1": experiment()},
        "observation": "full observation of u",
        "norm": "L2",
        "epsilon": epsilon,
        "factual_norm": 0.41,
        "intervention": "deletion",
        "refit": "none",
        "coefficients": "given",
        "sentence": f"Each verdict holds for the library {{{', '.join(names)}}}, this experiment "
        "on the time window (0, 1), full "
        f"observation of u, the norm L2 and ε = {epsilon:g}; deletion without refitting the other "
        "coefficients.",
        **more,
    }


def experiment():
    return {
        "window": [0.0, 1.0, 20],
        "boundary": ["Dirichlet(u, 0, on='all')"],
        "initial": {"u": "sin(pi*x)*sin(pi*y)"},
        "forcing": {},
    }


COST = {
    "factual": 1,
    "deleted": 4,
    "linearised": 4,
    "adjoint": 2,
    "iterations": 380,
    "seconds": {"set-up": 1.2, "deletions": 3.4},
    "ranks": 2,
    "strategies": {"difference": 4},
    "peak_memory": 312.5,
    "linear_solves": 100,
    "worst_residual": 3e-13,
    "refinement": [
        {
            "term": "u_x",
            "experiment": "first",
            "intervention": "deletion",
            "level": 0,
            "score": 0.011,
            "margin": 0.02,
        },
        {
            "term": "u_x",
            "experiment": "first",
            "intervention": "deletion",
            "level": 1,
            "score": 0.012,
            "margin": 0.005,
        },
    ],
}
ENVIRONMENT = {
    "cffem": cffem.__version__,
    "python": "3.13.5",
    "versions": {"numpy": "2.2.4"},
    "unknowns": 441,
    "cells": 200,
    "seeds": {"study": 0},
}


def sets(terms, **more):
    kinds = ("relevant", "irrelevant", "unresolved", "constraint_null", "unsolvable")
    found = {kind: [t.name for t in terms if t.decision == kind] for kind in kinds}
    return {"fit": [t.name for t in terms if t.coefficient], "aliased": [], **found, **more}


def assembled(terms, **sections):
    absent = {
        name: {"skipped": "not part of this example"}
        for name in (
            "constraint",
            "design",
            "identifiability",
            "calibration",
            "screening",
            "interventions",
            "maps",
            "profiles",
            "observables",
        )
    }
    full = {
        "scope": scope([t.name for t in terms]),
        "sets": sets(terms),
        "cost": COST,
        "environment": ENVIRONMENT,
    }
    return Report({t.name: t for t in terms}, {**absent, **full, **sections})


def known() -> Report:
    """All verdicts, a constraint, observables; ranks of residual and deletion reversed for
    two terms.
    """
    terms = [
        TermReport(
            "curl curl",
            r"- \nabla \times \left(\nabla \times \mathbf{E}\right)",
            1.0,
            None,
            9.6,
            0.9,
            0.48,
            0.52,
            0.431,
            0.003,
            0.004,
            0.007,
            None,
            None,
            "guaranteed",
            "equilibrated flux",
            "relevant",
            "",
            PROOF,
        ),
        TermReport(
            "damping",
            r"- \frac{\partial}{\partial t} \mathbf{E}",
            1e-3,
            None,
            1.1e-3,
            1e-3,
            5e-5,
            2.1e-4,
            2.2e-4,
            0.003,
            0.003,
            0.004,
            None,
            None,
            "guaranteed",
            "equilibrated flux",
            "irrelevant",
            "",
            PROOF,
        ),
        TermReport(
            "grad div",
            r"\nabla \left(\nabla \cdot \mathbf{E}\right)",
            1.0,
            None,
            3e-14,
            1e-15,
            1e-16,
            2e-15,
            3.1e-15,
            decision="constraint_null",
            reason="vanishes on the constraint class, ratio 2.1e-14",
        ),
        TermReport(
            "Hall",
            r"\mathbf{E} \times \left(0, 0, 1\right)",
            0.1,
            None,
            0.07,
            0.01,
            0.003,
            0.012,
            0.0125,
            0.004,
            0.004,
            0.0062,
            None,
            None,
            "estimated",
            "three levels",
            "unresolved",
            "the error bar reaches ε",
            {**PROOF, "hypotheses": []},
        ),
        TermReport(
            "lap",
            r"\Delta \mathbf{E}",
            0.5,
            None,
            0.2,
            0.05,
            0.01,
            decision="unsolvable",
            reason="singular at t = 0.3",
        ),
        TermReport(
            "drag",
            r"\left|\mathbf{E}\right|^{2} \mathbf{E}",
            0.02,
            None,
            0.02,
            0.002,
            0.001,
            0.055,
            0.06,
            decision="unresolved",
            reason="no error bar: the problem is nonlinear",
        ),
        TermReport(
            "source", "1", 0.0, decision="unresolved", reason="not deleted: its coefficient is zero"
        ),
    ]
    constraint = {
        "class": "div(E) = 0",
        "null_terms": [
            {"term": "grad div", "evidence": "symbolic", "ratio": 2.1e-14, "reason": "div E = 0"}
        ],
        "equivalence_classes": [
            {"terms": ["curl curl", "lap"], "identified": ["alpha_curl_curl + alpha_lap"]}
        ],
        "effective_library": ["curl curl", "damping", "Hall", "drag", "source"],
    }
    changes = {
        "curl curl": {
            "deletion": 0.3,
            "adjoint": 0.28,
            "margin": 0.01,
            "decision": "relevant",
            "reason": "",
        },
        "damping": {
            "deletion": 1e-5,
            "adjoint": 1e-5,
            "margin": None,
            "decision": "unresolved",
            "reason": "no error bar",
        },
        "grad div": {
            "deletion": 1e-16,
            "adjoint": 0.0,
            "margin": None,
            "decision": "constraint_null",
            "reason": "",
        },
    }
    observables = {
        "energy": {
            "observable": "Energy(E, at='end')",
            "epsilon": 1e-3,
            "value": 0.125,
            "terms": changes,
        }
    }
    return assembled(terms, constraint=constraint, observables=observables)


def screened(seed: int = 0) -> Report:
    """A screen with its path and frequencies, an alias group, and the next experiment."""
    random = np.random.default_rng(seed)
    names = ["u", "lap", "u_x", "u_y", "u2", "one"]
    A = random.standard_normal((600, 6)) @ (np.eye(6) + 0.35 * np.ones((6, 6)))
    A[:, 1] = -19.7392 * A[:, 0]
    made = Design.from_matrix(
        A, A @ [0.2, 0.0, -0.16, 0.08, 0, 0] + 0.05 * random.standard_normal(600), names
    )
    screen = Screening(replicates=30).fit(made)
    contract, bracket = screen.contract_, made.restricted_eigenvalue(2, seconds=1.0)

    def named(values):
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    groups = [
        {
            "terms": list(g.terms),
            "identified": [str(g.identified)],
            "estimates": list(g.estimates),
            "sentence": str(g),
        }
        for g in made.alias_groups()
    ]
    assert groups, "this example has an alias group"
    selected = {"terms": list(screen.names_), "minimum_eigenvalue": 0.0, "condition": 1e9}
    design = {
        "kind": "weak",
        "rows": made.rows,
        "effective_rows": made.effective_rows,
        "columns": 6,
        "names": names,
        "rank": made.rank(),
        "coherence": made.coherence(),
        "gram": made.normalised_gram().tolist(),
        "alias_groups": groups,
        "restricted_eigenvalue": {"s": 2, "lower": bracket.lower, "upper": bracket.upper},
        "selected": selected,
        "next": {
            "sentence": "Add the experiment “mode 1×2”: it tells apart u, lap.",
            "candidates": [
                {
                    "name": "mode 1×2",
                    "rank": 6,
                    "minimum_eigenvalue": 0.02,
                    "separated": [["lap", "u"]],
                }
            ],
        },
    }
    screening = {
        "anchor": "Derivative(u, t)",
        "normalisation": "columns scaled to ‖A_j‖²/n = 1",
        "debiasing": "least squares on the support",
        "method": "lasso",
        "lambda": screen.alpha_,
        "tau": screen.threshold_,
        "support": list(screen.names_),
        "bound": contract.bound if math.isfinite(contract.bound) else None,
        "irrepresentability": contract.irrepresentability,
        "contract": contract.recall,
        "frequencies": named(screen.frequencies_),
        "coefficients": named(screen.coef_),
        "intervals": {
            n: [float(v) for v in pair] for n, pair in zip(names, screen.intervals_, strict=True)
        },
        "reliable": screen.reliable_,
        "reasons": screen.reasons_,
        "path": {
            "lambda": screen.path_.alphas.tolist(),
            "coefficients": {
                n: c.tolist() for n, c in zip(names, screen.path_.coefficients, strict=True)
            },
        },
        "misfit": {
            "experiment 1": {
                "misfit": 0.04,
                "missing_terms": False,
                "sentence": "The solution is 4.0% from the data.",
            }
        },
    }
    terms = [
        TermReport(
            "u",
            "u",
            0.2,
            True,
            0.5,
            0.4,
            0.02,
            0.09,
            0.1,
            None,
            None,
            0.02,
            0.01,
            None,
            "estimated",
            "three levels",
            "unresolved",
            groups[0]["sentence"],
        ),
        TermReport(
            "lap",
            r"\Delta u",
            0.001,
            True,
            0.4,
            0.3,
            0.02,
            0.05,
            0.06,
            None,
            None,
            0.02,
            0.01,
            None,
            "estimated",
            "three levels",
            "unresolved",
            groups[0]["sentence"],
        ),
        TermReport(
            "u_x",
            r"\frac{\partial}{\partial x} u",
            -0.16,
            True,
            0.3,
            0.2,
            0.01,
            0.2,
            0.21,
            0.01,
            0.01,
            0.02,
            0.01,
            None,
            "estimated",
            "three levels; intervals of the coefficients",
            "relevant",
            "",
        ),
        TermReport(
            "u_y",
            r"\frac{\partial}{\partial y} u",
            0.08,
            True,
            0.1,
            0.1,
            0.005,
            0.11,
            0.1,
            0.01,
            0.01,
            0.02,
            0.01,
            None,
            "estimated",
            "three levels",
            "relevant",
            "",
        ),
        TermReport(
            "u2",
            "u^{2}",
            0.0,
            False,
            decision="unresolved",
            reason="not selected by the screen (in 3% of the replicates)",
        ),
        TermReport(
            "one",
            "1",
            0.0,
            False,
            decision="unresolved",
            reason="not selected by the screen (in 0% of the replicates)",
        ),
    ]
    aliased = sets(terms, aliased=["lap", "u"])
    return assembled(
        terms,
        design=design,
        screening=screening,
        sets=aliased,
        scope=scope(names, coefficients="estimated from data"),
    )


def hostile() -> Report:
    """Names that try to be markup, mathematics, terminal codes or very long."""
    names = [
        HOSTILE,
        "$\\frac$ & % _#{}",
        "\x1b[31mred\x1b[0m\nline",
        "[red]u[/red]",
        "x" * 300,
        "温度 ∂ₜ",
        '" onload="alert(2)',
    ]
    terms = [
        TermReport(
            name,
            rf"\input{{{name}}}",
            1.0,
            None,
            0.1 * k,
            0.1,
            0.1,
            0.1,
            0.02 * k,
            0.1,
            0.1,
            0.001,
            None,
            None,
            "guaranteed",
            name,
            "relevant" if k > 1 else "irrelevant",
            name,
            {**PROOF, "inequality": name, "hypotheses": [[name, name]]},
        )
        for k, name in enumerate(names, 1)
    ]
    part = {"skipped": HOSTILE}
    return assembled(terms, constraint=part, design=part, screening=part, observables=part)


def area(names=("curl curl", "damping"), components=3, field="E") -> Fields:
    """A drawing on a triangulated square."""
    side = np.linspace(0, 1, 25)
    points = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    corner = np.arange(625).reshape(25, 25)
    a, b, c, d = (
        part.ravel()
        for part in (corner[:-1, :-1], corner[1:, :-1], corner[:-1, 1:], corner[1:, 1:])
    )
    cells = np.concatenate([np.column_stack([a, b, c]), np.column_stack([b, d, c])])
    x, y = points.T
    swirl = np.column_stack(
        [np.sin(np.pi * x) * np.cos(np.pi * y), -np.cos(np.pi * x) * np.sin(np.pi * y), 0 * x]
    )[:, :components]
    deleted = {
        name: {field: swirl * (0.4 + 0.5 * k) + 0.02 * np.sin(9 * x)[:, None]}
        for k, name in enumerate(names)
    }
    return Fields(
        points,
        cells,
        ("x", "y"),
        {field: swirl},
        deleted,
        "slice z = 0.5" if components == 3 else "",
        1.0,
    )


def line(names=("u_x", "u")) -> Fields:
    """A drawing on an interval."""
    x = np.linspace(0, 1, 60)[:, None]
    cells = np.column_stack([np.arange(59), np.arange(1, 60)])
    return Fields(
        x,
        cells,
        ("x",),
        {"u": np.sin(np.pi * x)},
        {name: {"u": np.sin(np.pi * x) * (0.5 + 0.2 * k)} for k, name in enumerate(names)},
    )
