"""A model on other time levels: the solution of a model made for them, with the spaces and
matrices of the one at hand.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest

pytest.importorskip("dolfinx")

from derivative_problems import PROBLEMS

import cffem as cf


@pytest.mark.parametrize("name", ["heat", "reaction_diffusion", "navier_stokes", "maxwell"])
def test_other_time_levels_give_the_scores_of_a_model_of_their_own(name):
    model = PROBLEMS[name]()[0]
    window = dataclasses.replace(model.experiment.time, steps=2 * model.experiment.time.steps)
    term = model.active[0]
    before = model.factual.distance(model.solve(cf.delete(term)))
    finer = model.at(window)
    assert finer.equation is model.equation
    own = cf.Model(
        model.library,
        model.coefficients,
        dataclasses.replace(model.experiment, time=window),
        model.petsc_options,
    )
    assert finer.deletions([term])[term].score == pytest.approx(
        own.deletions([term])[term].score, rel=1e-10
    )
    # The matrices of the first are as good as before, and freeing the second leaves them alone.
    finer.destroy()
    assert model.factual.distance(model.solve(cf.delete(term))) == pytest.approx(before, rel=1e-12)


def test_other_time_levels_do_not_keep_the_model_alive():
    model = PROBLEMS["reaction_diffusion"]()[0]
    finer, gone = model.at(model.experiment.time), weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert finer.factual.norm() > 0
