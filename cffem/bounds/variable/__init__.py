# SPDX-License-Identifier: MIT
"""Guaranteed bounds for scalar problems with variable coefficients and any natural boundary."""
