# SPDX-License-Identifier: MIT
"""The page's only script: a slider for ε, and tables that sort.

The page is complete without it; what needs it appears only where it runs. The page's policy names
its checksum, so that no other script can run, and nothing is fetched.

An error bar does not depend on ε, so that a verdict at another tolerance follows from the same
numbers: relevant where δ − η > ε, irrelevant where δ + η < ε. A relative tolerance is known only up
to the error η_f of ‖u‖; the slider then takes the worse end, as the verdict itself does.
"""

from __future__ import annotations

import base64
import hashlib
import math
from typing import TYPE_CHECKING

from cffem.study.report.markup import Raw, text
from cffem.study.report.summary import term_epsilon
from cffem.symbols.reasons import SIZE_ERROR

if TYPE_CHECKING:
    from cffem.study.report.report import Report, TermReport

SCRIPT = """
for (const box of document.querySelectorAll('.tolerance')) {
  box.hidden = false;
  const slider = box.querySelector('input'), said = box.querySelector('output');
  const lists = Object.fromEntries([...box.querySelectorAll('[data-verdict]')].map(
    (place) => [place.dataset.verdict, place]));
  const terms = [...box.querySelectorAll('[data-score]')];
  const show = () => {
    const factor = 10 ** Number(slider.value);
    const found = {relevant: [], irrelevant: [], unresolved: []};
    for (const term of terms) {
      const [score, margin, low, high] = ['score', 'margin', 'low', 'high'].map(
        (key) => Number(term.dataset[key]));
      const verdict = score - margin > factor * high ? 'relevant'
        : score + margin < factor * low ? 'irrelevant' : 'unresolved';
      found[verdict].push(term.textContent);
    }
    const base = Number(slider.dataset.epsilon);
    said.textContent = base ? (base * factor).toPrecision(3) : factor.toPrecision(3) + ' times';
    for (const [verdict, names] of Object.entries(found))
      lists[verdict].textContent = names.join(', ') || '\\u2013';
  };
  slider.addEventListener('input', show);
  show();
}
const value = (row, column) => row.cells[column].textContent.trim();
for (const head of document.querySelectorAll('table thead th')) {
  const table = head.closest('table'), body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  head.tabIndex = 0;
  head.classList.add('sorts');
  const sort = () => {
    const up = head.getAttribute('aria-sort') !== 'ascending';
    for (const other of table.querySelectorAll('thead th')) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const column = head.cellIndex, rows = [...body.rows];
    const numeric = rows.every((row) => /^[-\\u2013]?$|^-?[\\d.]/.test(value(row, column)));
    const key = (row) => numeric ? parseFloat(value(row, column)) : value(row, column);
    const empty = (x) => Number.isNaN(x) || x === '';
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (empty(x) || empty(y)) return empty(x) - empty(y);
      const order = numeric ? x - y : x.localeCompare(y);
      return up ? order : -order;
    });
    body.append(...rows);
  };
  head.addEventListener('click', sort);
  head.addEventListener('keydown', (event) => { if (event.key === 'Enter') sort(); });
}
"""
CHECKSUM = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
DECADES = 3  # to each side of the study's own tolerance


def tolerance_slider(report: Report) -> Raw:
    """Verdicts at other tolerances; nothing where no term has a score with an error bar."""
    terms = [(term, limits(report, term)) for term in report.terms.values()]
    known = [(term, found) for term, found in terms if found is not None]
    if not known:
        return Raw("")
    one = {term_epsilon(report, term) for term, _ in known}
    base = next(iter(one)) if len(one) == 1 else None
    names = "".join(
        f'<span data-score="{term.deletion!r}" data-margin="{term.margin!r}" '
        f'data-low="{low!r}" data-high="{high!r}">{text(term.name)}</span>'
        for term, (low, high) in known
    )
    rows = "".join(
        f"<dt>{word}</dt><dd data-verdict={word}></dd>"
        for word in ("relevant", "irrelevant", "unresolved")
    )
    return Raw(
        '<div class="tolerance" hidden><label>Verdicts at another tolerance: '
        f'<input type="range" min="-{DECADES}" max="{DECADES}" step="0.02" value="0" '
        f'data-epsilon="{base or ""}"></label> ε = <output></output>'
        f"<dl>{rows}</dl><span hidden>{names}</span></div>"
    )


def limits(report: Report, term: TermReport) -> tuple[float, float] | None:
    """The interval in which the tolerance of a verdict lies; None without score or error bar."""
    epsilon = term_epsilon(report, term)
    numbers = (term.deletion, term.margin, epsilon)
    if any(value is None or not math.isfinite(value) for value in numbers) or not epsilon:
        return None
    if term.decision not in ("relevant", "irrelevant", "unresolved"):
        return None
    scope = report.sections["scope"]
    norm, eta = scope.get("factual_norm"), term.eta_factual
    known = ((term.proof or {}).get("constants") or {}).get(SIZE_ERROR)
    eta = known if eta is not None and known is not None and known < eta else eta
    share = 0.0
    if scope.get("relative"):
        # The scope has the norm of the whole solution of the first experiment, no other one.
        if not norm or eta is None or term.fields or term.experiment:
            return None
        share = min(eta / norm, 1.0)
    return epsilon * (1 - share), epsilon * (1 + share)
