# SPDX-License-Identifier: MIT
"""Views of volumes: the surface of a body with the corner next to the viewer cut away."""
