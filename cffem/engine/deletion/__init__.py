# SPDX-License-Identifier: MIT
"""Deletion sweeps: strategies that share factual work, rank groups and refits."""
