# SPDX-License-Identifier: MIT
"""Measured data: gridded or scattered fields, their noise, and the rows of a design they give."""

from cffem.data.dataset import Dataset
from cffem.data.rows.row_blocks import RowBlock, RowSource

__all__ = ["Dataset", "RowBlock", "RowSource"]
