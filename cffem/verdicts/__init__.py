# SPDX-License-Identifier: MIT
"""Verdicts with error bars."""

from cffem.verdicts.certification import Certification
from cffem.verdicts.decisions import decide
from cffem.verdicts.pruning import PruningContract, pruning_contract
from cffem.verdicts.until_decided import LevelVerdict, decide_by_refinement

__all__ = [
    "Certification",
    "LevelVerdict",
    "PruningContract",
    "decide",
    "decide_by_refinement",
    "pruning_contract",
]
