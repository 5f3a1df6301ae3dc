"""Random problems with several unknowns agree with plain DOLFINx to 1e-9, or are refused in
words.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from net_compare import check_seeds
from net_coupled_problems import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_random_coupled_problems_agree_with_plain_dolfinx(kind, record_property):
    check_seeds(kind, range(3), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_coupled_problems_agree_with_plain_dolfinx(kind, record_property):
    check_seeds(kind, range(1000, 1060), record_property)
