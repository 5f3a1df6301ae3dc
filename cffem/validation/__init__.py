# SPDX-License-Identifier: MIT
"""`cffem validate`: the paper's checks, with the paper's figure beside ours."""
