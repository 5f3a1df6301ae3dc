# SPDX-License-Identifier: MIT
"""Fields on disk: exact storage on any number of ranks, and files for ParaView."""
