# SPDX-License-Identifier: MIT
"""Guaranteed bounds for scalar waves and Maxwell's equations."""
