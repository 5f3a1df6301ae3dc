# SPDX-License-Identifier: MIT
"""SymPy nodes of operators and products: normal forms, components, rewrites and derivatives."""
