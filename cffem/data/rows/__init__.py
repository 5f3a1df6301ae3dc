# SPDX-License-Identifier: MIT
"""Rows of the anchored regression from measured data, weak and strong, on grids and scattered
points.
"""
