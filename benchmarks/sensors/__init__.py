# SPDX-License-Identifier: MIT
"""`cffem bench sensors`: coefficients and needed terms from few sensors."""
