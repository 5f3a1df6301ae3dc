# SPDX-License-Identifier: MIT
"""The code behind `cffem validate`, `cffem bench`, `cffem doctor` and the demos."""
