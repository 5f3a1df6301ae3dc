# SPDX-License-Identifier: MIT
"""Data enclosed over cells and time steps, so that nothing between quadrature points is missed."""
