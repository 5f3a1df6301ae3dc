# SPDX-License-Identifier: MIT
"""Marching in time: schemes, starts, growth and where trajectories are kept."""
