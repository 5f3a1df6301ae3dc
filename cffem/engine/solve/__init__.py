# SPDX-License-Identifier: MIT
"""Linear and Newton solves that tell the truth, and which solver a problem gets."""
