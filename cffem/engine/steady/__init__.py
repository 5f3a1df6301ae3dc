# SPDX-License-Identifier: MIT
"""Steady problems: how a solution is arrived at, its branch, and whether it is stable."""
