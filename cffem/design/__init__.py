# SPDX-License-Identifier: MIT
"""What an experiment can identify: the operator-evaluation design as streamed Gram blocks,
and its diagnostics.
"""

from cffem.data.rows.row_blocks import RowBlock, RowSource
from cffem.design.aliasing import AliasGroup
from cffem.design.cone import Bracket
from cffem.design.design import Design
from cffem.design.design_parts import Addition

__all__ = ["Addition", "AliasGroup", "Bracket", "Design", "RowBlock", "RowSource"]
