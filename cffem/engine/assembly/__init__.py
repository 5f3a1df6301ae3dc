# SPDX-License-Identifier: MIT
"""From declarations to matrices: spaces, one form for each term, traces and essential
conditions.
"""
