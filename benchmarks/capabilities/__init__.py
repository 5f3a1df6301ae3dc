# SPDX-License-Identifier: MIT
"""What works for which class of problems, tried cell by cell."""
