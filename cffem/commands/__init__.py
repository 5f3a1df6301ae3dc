# SPDX-License-Identifier: MIT
"""Small commands around studies: begin one, compare two, explain a reason, complete a line."""
