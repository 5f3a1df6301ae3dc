# SPDX-License-Identifier: MIT
"""Constants of the domain and its mesh, and whether the mesh is a domain at all."""
