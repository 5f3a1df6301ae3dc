"""`cffem bench scale`: a tiny run of one problem writes its figures."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from benchmarks.scale.scale_bench import main


@pytest.mark.mpi
@pytest.mark.slow
def test_a_tiny_run_writes_its_figures(tmp_path):
    assert main(["--tiny", "--problems", "heat", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "scale.json").read_text())
    assert [row["ranks"] for row in found["heat"]["ranks"]] == [1, 2]
    assert found["figures"]["heat: scores differ by"]["passed"]
    assert found["heat"]["rows"][-1]["status"] == dict.fromkeys(
        ("lap", "u", "u_x", "u_y"), "solved"
    )
