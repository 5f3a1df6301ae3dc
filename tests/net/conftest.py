"""At the end of a run: how many random problems agreed with plain DOLFINx, and what was refused."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    agreed, refused = 0, Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "agreed" and report.when == "call":
                    agreed += value
                elif name == "refused" and report.when == "call":
                    refused.update(dict(value))
    if agreed or refused:
        terminalreporter.write_line(
            f"random problems: {agreed} agree with plain DOLFINx, {sum(refused.values())} refused"
        )
        for reason, count in refused.most_common():
            terminalreporter.write_line(f"  {count:4d}  {reason}")
