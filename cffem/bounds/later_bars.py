# SPDX-License-Identifier: MIT
"""Guaranteed bars that cost more than a study may spend on its bars: they come after estimates, for
terms that these leave open, as far as the effort goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cffem.bounds.certificate import NoCertificate, NotCovered
from cffem.bounds.certifiers import CERTIFIERS
from cffem.bounds.levels.estimates import SMALL

if TYPE_CHECKING:
    from cffem.bounds.certifiers import Asked
    from cffem.engine.model import Model


def price_of_bars(model: Model) -> float:
    """What guaranteed bars of all deletions cost, in units of the study; zero where that is little;
    collective.
    """
    try:
        for kind in CERTIFIERS.latest_first():
            if not kind.enriched and kind.covers(model):
                return 0.0 if kind.price is None else kind.price(model)
    except NotCovered:
        pass
    return 0.0


class LaterBars:
    """Whether guaranteed bars come first, and which of them are affordable later.

    Args:
        model: the model.
        means: what is asked of the bars.

    Attributes:
        postponed: whether estimates come first.
    """

    def __init__(self, model: Model, means: Asked):
        steps = max(len(model.times) - 1, 1)
        self.price = price_of_bars(model)
        self.effort = means.effort
        # What is asked for by name comes first, and so does what takes no time.
        asked = means.enriched or means.budget is not None
        small = model.spaces.size * steps <= SMALL
        self.postponed = not asked and not small and self.price > means.effort
        # The factual solution has its bar once.
        self._each = self.price / (1 + len(model.active))
        self._spent = self._each

    def affordable(self) -> bool:
        """Whether the bar of one more deletion is within the effort; it counts as spent then."""
        if self._spent + self._each > self.effort:
            return False
        self._spent += self._each
        return True

    def too_dear(self) -> NoCertificate:
        """Why there is no guaranteed bar."""
        return NoCertificate(
            f"guaranteed error bars of all terms cost about {self.price:.2g} times the factual "
            f"solve with its deletions, more than the effort of {self.effort:.2g}"
        )
