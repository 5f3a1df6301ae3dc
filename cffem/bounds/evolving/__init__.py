# SPDX-License-Identifier: MIT
"""Guaranteed bounds for ρ u_t − div(A ∇u) + b·∇u + c u = f with any coefficients of the place."""
