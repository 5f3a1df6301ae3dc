# SPDX-License-Identifier: MIT
"""Which terms the data support: sparse screening, refit, error bars and the reasons not to
believe a model.
"""

from cffem.screening.contract import Contract
from cffem.screening.doubts import Doubt, Reliability
from cffem.screening.screening import Screening

__all__ = ["Contract", "Doubt", "Reliability", "Screening"]
