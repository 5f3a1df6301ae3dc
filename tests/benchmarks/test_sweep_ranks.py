"""The measurement of two ranks: both sides give the same scores and verdicts, and every row
of the table is there.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from benchmarks.sweep import sweep_ranks


@pytest.mark.mpi
def test_two_ranks_and_two_jobs_give_the_same_scores():
    result = sweep_ranks.run(tiny=True, problems=["transient"])
    assert [row["demand"] for row in result["rows"]] == list(sweep_ranks.DEMANDS)
    for row in result["rows"]:
        assert row["equal"]
        assert row["ranks"] == 2
        assert min(*row["gain"], *row["gain, first"]) > 0
    assert "2D transient" in sweep_ranks.section(result)


def test_a_difference_beyond_what_was_promised_is_told():
    class Found:
        def __init__(self, score, error=0.0):
            self.score, self.error = score, error

    exact = {"u": 1.0}
    for score, error, equal in (
        (1 + 5e-11, 0.0, True),
        (1 + 1e-6, 0.0, False),
        (1 + 1e-4, 1e-5, True),
        (1 + 1e-3, 1e-5, False),
    ):
        assert (
            sweep_ranks._compared(
                {"u": Found(1.0, error)}, {"u": Found(score, error)}, exact, 1.0, None
            )["equal"]
            == equal
        )
    assert not sweep_ranks._compared({"u": Found(1.0)}, {"u": Found(0.3)}, exact, 1.0, 0.5)["equal"]


def test_a_run_that_fails_says_so(monkeypatch):
    monkeypatch.setattr(sweep_ranks.sys, "executable", "false")
    result = sweep_ranks.run(tiny=True, problems=["transient"])
    assert "mpirun ended with" in sweep_ranks.section(result)
