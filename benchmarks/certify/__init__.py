# SPDX-License-Identifier: MIT
"""`cffem bench certify`: do the error bars hold, and how sharp are they?"""
