# SPDX-License-Identifier: MIT
"""What one asks of a model about changed problems: deletions, interventions, profiles.

These functions are methods of `Model`; how the problems are solved is a matter of `sweep`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from cffem.engine.deletion.outcomes import Deletion, Demand, Sweep
from cffem.engine.deletion.refit import Refit, deleting
from cffem.engine.deletion.refit import refitted as refitted_coefficients
from cffem.engine.deletion.sweep import run_sweep
from cffem.engine.norms import parsed
from cffem.engine.response.questions import chosen
from cffem.engine.time.in_parts import admit
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import CARRIED, Intervention, joint
from cffem.symbols.problem.known_values import change_with_known

if TYPE_CHECKING:
    from cffem.engine.deletion.profile import Profile
    from cffem.engine.model import Model
    from cffem.symbols.problem.observables import Observable


def profile(
    model: Model,
    name: str,
    norm: str = "L2",
    epsilon: float | None = None,
    observable: Observable | None = None,
    points: int = 8,
    resolution: float = 1e-2,
    conditions: str = "carried",
) -> Profile:
    """ρ ↦ δ(ρ) of one term, whose coefficient becomes (1 − ρ) α_j, up to the largest ρ that has
    a solution.

    Args:
        name: the term.
        norm: the norm of the scores.
        epsilon: the tolerance; the ρ from which δ exceeds it is looked for.
        observable: an observable whose change takes the place of δ.
        points: in how many parts [0, 1] is divided at least.
        resolution: how closely in ρ the end of solutions and the place where δ exceeds ε are
            found.
        conditions: what becomes of essential conditions that the deleted equation, at ρ = 1,
            cannot carry, as in `delete`.
    """
    from cffem.engine.deletion.profile import ProfileSettings
    from cffem.engine.deletion.profile import profile as found

    return found(
        model, name, norm, epsilon, observable, ProfileSettings(points, resolution), conditions
    )


def deletions(
    model: Model,
    names: str | Iterable[str] | None = None,
    norm: str = "L2",
    keep: bool | str = False,
    finished: Callable[[Deletion], object] | None = None,
    refit: Refit = "none",
    scores: str = "full",
    epsilon: float | None = None,
    accuracy: float = 0.0,
    groups: int | None = None,
    conditions: str = CARRIED,
) -> Sweep:
    """Delete each of these terms (default: all with a nonzero coefficient) and compare with the
    factual solution.

    Args:
        names: the terms, or one term.
        norm: the norm of the scores.
        keep: whether each deletion keeps its `solution`; otherwise no trajectory is stored.
            "handed": `finished` gets it with the deletion, and then it is forgotten.
        finished: called with each `Deletion` when it is done, on all ranks.
        refit: "none": the other coefficients stay; "remaining": they are refitted on the
            factual solution without the deleted term; or for each deleted term the coefficients
            of others, from a regression of one's own.
        scores: "full", or "decide": followed only until the verdict against `epsilon` is clear.
        epsilon: the tolerance ε, absolute, for scores="decide".
        accuracy: the relative accuracy of full scores, 1e-4 say, where one does not need
            working precision (zero, or less than 1e-7): much cheaper for transient problems
            without algebraic unknowns.
        groups: how many groups of ranks share the deletions, each working on its own ones;
            None: as many as suit.
        conditions: "carried": a deleted equation keeps the essential conditions that it can
            carry, as `cffem.delete` says; "kept": all.
    """
    if scores not in ("full", "decide") or (scores == "decide") != (epsilon is not None):
        raise InputError("scores are 'full', or 'decide' together with a tolerance epsilon")
    demand = Demand(norm, keep, accuracy, epsilon)
    parsed(norm, model.discretisation)  # an unknown one is an error before anything is solved
    changes = deleting(model, chosen(model, names), refit, conditions)
    return run_sweep(model, changes, demand, finished, groups)


def interventions(
    model: Model,
    changes: Mapping[str, Intervention],
    norm: str = "L2",
    keep: bool | str = False,
    finished: Callable[[Deletion], object] | None = None,
    accuracy: float = 0.0,
    groups: int | None = None,
) -> Sweep:
    """Solve the problem that each of some named interventions makes and compare it with the
    factual solution, as `deletions` does: a group of terms costs what one term does.

    Args:
        changes: interventions by names of one's own.
        norm, keep, finished, accuracy, groups: as of `deletions`.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "a": u, "b": u**3})
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1), elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
        >>> model = cf.Model(library, {"lap": 1.0, "a": -3.0, "b": -3.0}, experiment)
        >>> found = model.interventions({"half": cf.scale("a", 0.5), "no": cf.delete("a", "b")})
        >>> found["no"].score > 2 * found["half"].score > 0
        True
    """
    parsed(norm, model.discretisation)
    made = {
        name: change_with_known(joint(change), model.experiment) for name, change in changes.items()
    }
    for change in made.values():
        admit(model, change)
        change.apply(model.coefficients)
    return run_sweep(model, made, Demand(norm, keep, accuracy), finished, groups)


def refitted(model: Model, name: str) -> dict[str, float]:
    """The coefficients of a deletion with `refit="remaining"`: the others, refitted on
    the factual solution.
    """
    return refitted_coefficients(model, (name,))[name]
