# SPDX-License-Identifier: MIT
"""Periodic sides: which unknowns are identified, and their elimination."""
