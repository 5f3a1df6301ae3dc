# SPDX-License-Identifier: MIT
"""Rows of the anchored regression from finite-element fields."""
