# SPDX-License-Identifier: MIT
"""`cffem bench scale`: size, ranks, memory, messages."""
