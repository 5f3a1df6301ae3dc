# SPDX-License-Identifier: MIT
"""Verdicts with error bars."""

from cffem.certify.certification import Certification
from cffem.certify.decisions import decide
from cffem.certify.pruning import PruningContract, pruning_contract
from cffem.certify.refinement import Verdict, decide_by_refinement

__all__ = ["Certification", "PruningContract", "Verdict", "decide", "decide_by_refinement", "pruning_contract"]
