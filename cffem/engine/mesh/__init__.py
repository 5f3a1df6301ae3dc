# SPDX-License-Identifier: MIT
"""Meshes with names: read from files, made by gmsh, or taken from DOLFINx."""
