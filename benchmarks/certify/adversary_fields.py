# SPDX-License-Identifier: MIT
"""Attacks by what is certified: fields that were brought along, interventions, refitted
coefficients, relative tolerances.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy as sp

import cffem as cf
from benchmarks.certify.adversary_modes import (
    UNIT,
    decay,
    fine_times,
    heat_model,
    in_time,
    oscillation,
    steady_model,
    u,
    wave_model,
)
from benchmarks.certify.certify_adversary import Attack, Finding, judged, judged_error
from cffem.bounds.certificate import DeletionBound, NoCertificate
from cffem.bounds.entrance import certify_solution, certify_sweep
from cffem.bounds.supplied_fields import certify_fields
from cffem.symbols import t, x, y
from cffem.verdicts import decide

MODE, LOWEST = UNIT.mode(1, 1), UNIT.eigenvalue(1, 1)


def _uniform(random: Any, low: float, high: float) -> float:
    return float(random.uniform(low, high))


# Fields
# --------------------------------------------------------------------------------------------------


def _faulty(random: Any, where: str, cells: int, degree: int, steps: int, end: float) -> sp.Expr:
    """What is wrong with a field, as an addition to it."""
    size = sp.Float(10 ** random.uniform(-3, -0.5))
    if where == "start":
        return size * MODE * sp.exp(-_uniform(random, 0, 20) * t)
    if where == "wall":
        return size * random.choice([1, x, 1 - 2 * y, x * y])
    if where == "time":
        return size * MODE * sp.sin(steps * sp.pi * t / end) ** 2
    return size * sp.sin(2 * degree * cells * sp.pi * x) * sp.sin(2 * degree * cells * sp.pi * y)


def brought_heat(where: str) -> Attack:
    """Fields of the heat equation that are wrong in one respect, the factual or the deleted one."""
    name = {
        "start": "brought fields, wrong at the start",
        "wall": "brought fields, wrong at the wall",
        "time": "brought fields, wrong between time levels",
        "nodes": "brought fields, wrong between nodes",
    }[where]

    def attack(random: Any) -> Finding:
        cells, degree, steps = (
            int(random.integers(4, 9)),
            int(random.integers(1, 3)),
            int(random.integers(4, 17)),
        )
        a, r, end = (
            10 ** random.uniform(-2, -0.5),
            _uniform(random, -1, 0.5),
            _uniform(random, 0.3, 1.5),
        )
        model = heat_model(MODE, 0, {"lap": a, "r": r}, cells, degree, cf.Window(0, end, steps))
        fields = [sp.exp(-sp.Float(a * LOWEST - c) * t) * MODE for c in (r, 0.0)]
        times = fine_times(end)
        rates = [np.exp(-(a * LOWEST - c) * times) for c in (r, 0.0)]
        truth = math.sqrt(UNIT.square * in_time(rates[0] - rates[1], times))
        which = int(random.integers(2))
        fields[which] += _faulty(random, where, cells, degree, steps, end)
        bound = certify_fields(model, fields[0], {"r": fields[1]})["r"]
        case = (
            f"n={cells} k={degree} steps={steps} a={a:.4g} r={r:.4g} T={end:.4g} wrong {which}: "
            f"{fields[which]}"
        )
        model.destroy()
        return judged(name, case, bound, truth)

    return attack


def brought_wave(random: Any) -> Finding:
    """Fields of the wave equation with a wrong start or rate."""
    cells, steps, end = (
        int(random.integers(4, 9)),
        int(random.integers(8, 17)),
        _uniform(random, 0.3, 1.0),
    )
    damping = _uniform(random, 0.05, 1.0)
    model = wave_model(
        MODE, 0, {"lap": 1.0, "damping": damping}, cells, 2, cf.Window(0, end, steps)
    )
    w = [math.sqrt(LOWEST - s * s / 4) for s in (damping, 0.0)]
    fields = [
        sp.exp(-s / 2 * t) * (sp.cos(k * t) + s / 2 / k * sp.sin(k * t)) * MODE
        for s, k in zip((damping, 0.0), w, strict=True)
    ]
    times = fine_times(end)
    paths = [oscillation(LOWEST, s, 1.0, 0 * times, times) for s in (damping, 0.0)]
    truth = math.sqrt(UNIT.square * in_time(paths[0] - paths[1], times))
    size, which = 10 ** random.uniform(-3, -0.7), int(random.integers(2))
    fields[which] += random.choice([size * MODE, size * sp.sin(3 * t) * MODE, size * t * MODE])
    given = [{u: field, cf.dt(u): field.diff(t)} for field in fields]
    bound = certify_fields(model, given[0], {"damping": given[1]})["damping"]
    case = f"n={cells} steps={steps} T={end:.4g} s={damping:.4g} size={size:.4g} of {which}"
    model.destroy()
    return judged("brought fields of a wave", case, bound, truth)


# Interventions
# --------------------------------------------------------------------------------------------------


def intervened(random: Any) -> Finding:
    """Interventions on data and coefficients, of steady problems, heat and waves, enriched or
    not.
    """
    kind, enriched = str(random.choice(["steady", "heat", "wave"])), bool(random.integers(2))
    cells, high, size = (
        int(random.integers(3, 7)),
        int(random.integers(2, 11)),
        10 ** random.uniform(0, 2),
    )
    other, scale = MODE + size * UNIT.mode(high, high), _uniform(random, 0.5, 2.0)
    k = np.array([LOWEST, UNIT.eigenvalue(high, high)])
    amplitudes = np.array([1.0, size])
    changed = bool(random.integers(2))
    if kind == "steady":
        model = steady_model(MODE, {"lap": 1.0, "r": -1.0}, cells, 1)
        change = cf.force({u: other}) & (cf.scale("r", scale) if changed else cf.set("r", -1.0))
        truth = math.sqrt(UNIT.square) * float(
            np.linalg.norm(amplitudes / (k + (scale if changed else 1.0)))
        )
    else:
        end, steps, a = _uniform(random, 0.3, 1.0), int(random.integers(4, 11)), 1e-3
        times, window = fine_times(end), cf.Window(0, end, steps)
        start = bool(random.integers(2))
        change = cf.start({u: other}) if start else cf.force({u: other})
        made = heat_model if kind == "heat" else wave_model
        numbers = {"lap": a, "r": -0.1} if kind == "heat" else {"lap": a, "damping": 0.1}
        model = made(MODE, 0, numbers, cells, 1, window)
        first, source = (
            (amplitudes, 0 * amplitudes) if start else (np.array([1.0, 0.0]), amplitudes)
        )
        factor = scale if changed else 1.0
        change = change & cf.scale("lap", factor) if changed else change
        paths = [
            decay(a * factor * e + 0.1, b, f + 0 * times, times)
            if kind == "heat"
            else oscillation(a * factor * e, 0.1, b, f + 0 * times, times)
            for e, b, f in zip(k, first, source, strict=True)
        ]
        truth = math.sqrt(UNIT.square * sum(in_time(path, times) for path in paths))
    certificate = certify_solution(model, change, enriched=enriched)
    error = abs(model.solve(change).norm() - truth)
    case = f"{kind} n={cells} enriched={enriched} {change}"
    model.destroy()
    return judged_error("interventions", case, certificate, error, truth)


def refitted(random: Any) -> Finding:
    """Deletions with the other coefficient refitted on the computed solution."""
    cells, degree = int(random.integers(4, 11)), int(random.integers(2, 4))
    first, second = ((1, 1), (2, 1)) if random.integers(2) else ((1, 1), (1, 3))
    f, c = np.array([1.0, _uniform(random, -4, 4)]), -_uniform(random, 1, 20)
    k = np.array([UNIT.eigenvalue(*first), UNIT.eigenvalue(*second)])
    model = steady_model(
        f[0] * UNIT.mode(*first) + f[1] * UNIT.mode(*second), {"lap": 1.0, "r": c}, cells, degree
    )
    amplitudes = f / (k - c)
    fitted = 1 + (c * amplitudes) @ (-k * amplitudes) / ((k * amplitudes) @ (k * amplitudes))
    truth = math.sqrt(UNIT.square) * float(np.linalg.norm(amplitudes - f / (fitted * k)))
    sweep = model.deletions(["r"], keep=True, refit="remaining")
    bound = certify_sweep(model, sweep, cf.Certification(epsilon=truth, budget=2e4))["r"]
    case = f"n={cells} k={degree} modes {first}, {second} f={f[1]:.4g} c={c:.4g}"
    model.destroy()
    return judged("refitted coefficients", case, bound, truth)


def relative(random: Any) -> Finding:
    """Relative tolerances near the true relative score, with a part of the solution that the
    mesh does not see.
    """
    cells, degree, high = (
        int(random.integers(4, 9)),
        int(random.integers(1, 3)),
        int(random.integers(6, 17)),
    )
    size, c = _uniform(random, 0.05, 2.0), -_uniform(random, 2, 30)
    k = np.array([LOWEST, UNIT.eigenvalue(high, high)])
    f = np.array([1.0, size * k[1] / LOWEST])
    model = steady_model(MODE + f[1] * UNIT.mode(high, high), {"lap": 1.0, "r": c}, cells, degree)
    whole = f / (k - c)
    score, norm = (
        math.sqrt(UNIT.square) * float(np.linalg.norm(v)) for v in (whole - f / k, whole)
    )
    truth, sweep = score / norm, model.deletions(["r"], keep=True)
    wrong = unresolved = 0
    factors = (0.3, 0.7, 0.85, 0.95, 1.05, 1.15, 1.4, 3.0)
    found: DeletionBound | NoCertificate = NoCertificate("nothing was asked")
    for factor in factors:
        asked = cf.Certification(epsilon=factor * truth, relative=True, budget=2e4)
        found = certify_sweep(model, sweep, asked)["r"]
        verdict = "unresolved"
        if isinstance(found, DeletionBound):
            verdict = decide(
                found.score,
                asked.threshold(found.size),
                margin=found.margin + asked.uncertainty(found.eta_factual),
            )
        wrong += verdict not in ("unresolved", "relevant" if factor < 1 else "irrelevant")
        unresolved += verdict == "unresolved"
    model.destroy()
    case = f"n={cells} k={degree} high={high} size={size:.4g} c={c:.4g}"
    if isinstance(found, NoCertificate):
        return Finding(
            "relative tolerances",
            case,
            "none",
            math.nan,
            math.inf,
            truth,
            len(factors),
            wrong,
            unresolved,
        )
    error = abs(found.score - score)
    kind = found.certificate.kind
    return Finding(
        "relative tolerances",
        case,
        kind,
        error,
        float(found.margin),
        score,
        len(factors),
        wrong,
        unresolved,
    )


ATTACKS: dict[str, Attack] = {
    "brought fields, wrong at the start": brought_heat("start"),
    "brought fields, wrong at the wall": brought_heat("wall"),
    "brought fields, wrong between time levels": brought_heat("time"),
    "brought fields, wrong between nodes": brought_heat("nodes"),
    "brought fields of a wave": brought_wave,
    "interventions": intervened,
    "refitted coefficients": refitted,
    "relative tolerances": relative,
}
