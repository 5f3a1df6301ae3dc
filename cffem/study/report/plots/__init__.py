# SPDX-License-Identifier: MIT
"""Plots of the page as SVG, written directly: a study draws about twenty of them."""
