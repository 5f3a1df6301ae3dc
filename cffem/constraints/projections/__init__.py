# SPDX-License-Identifier: MIT
"""Orthogonal projections onto discrete constraint classes."""
