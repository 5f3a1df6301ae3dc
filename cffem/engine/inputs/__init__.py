# SPDX-License-Identifier: MIT
"""Data of a problem on a mesh: initial, boundary and forcing data, integrated to a stated
accuracy.
"""
