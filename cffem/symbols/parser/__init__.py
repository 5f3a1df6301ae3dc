# SPDX-License-Identifier: MIT
"""Terms from text: a grammar, its words, its limits, and `parse`, which runs nothing."""
