# SPDX-License-Identifier: MIT
"""Fluxes of discontinuous fields: between cells, through the boundary, across periodic sides."""
