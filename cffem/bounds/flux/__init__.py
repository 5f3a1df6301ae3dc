# SPDX-License-Identifier: MIT
"""Equilibrated fluxes: residuals measured cell by cell."""
