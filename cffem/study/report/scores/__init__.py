# SPDX-License-Identifier: MIT
"""Scores as rankings with uncertainty, and as profiles of partial deletions."""
