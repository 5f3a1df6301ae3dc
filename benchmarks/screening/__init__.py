# SPDX-License-Identifier: MIT
"""`cffem bench screening`: what the screen identifies, beside its peers."""
