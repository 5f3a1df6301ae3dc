# SPDX-License-Identifier: MIT
"""`cffem bench sweep`: what all deletions cost, in units of one factual solve."""
