# SPDX-License-Identifier: MIT
"""Guaranteed bounds for steady reaction, advection and diffusion."""
