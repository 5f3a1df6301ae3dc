# SPDX-License-Identifier: MIT
"""`cffem bench study`: what a certified study costs beside the loop by hand."""
