# SPDX-License-Identifier: MIT
"""The page of a report: one HTML file that opens offline, is complete without its script, fetches
nothing, and prints on paper.

It opens with three sentences; then verdicts with their picture, the scope, and after that what
stands behind them, each part in `page_parts` and `page_data`. A content security policy in the page
itself forbids every request and every script but the page's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cffem.study.report import page_evidence as page_data
from cffem.study.report import page_verdicts as page_parts
from cffem.study.report.interventions.page_interventions import page_interventions
from cffem.study.report.maps.map_pictures import page_maps
from cffem.study.report.markup import Raw, absent, bullets, paragraph, section, text
from cffem.study.report.page_script import CHECKSUM, SCRIPT, tolerance_slider
from cffem.study.report.scores.profile_report import page_profiles
from cffem.study.report.sensors import page_sensors
from cffem.study.report.summary import (
    interventions_sentence,
    notice,
    places_sentence,
    screen_sentence,
    sensor_sentence,
    sentences,
)
from cffem.study.report.verdict_pictures import error_bars

if TYPE_CHECKING:
    from cffem.study.report.report import Report

SCHEMA = "cffem-report/2"

POLICY = (
    f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '{CHECKSUM}'; "
    "base-uri 'none'; form-action 'none'"
)
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; color: #1a1a1a;
  background: #fff; margin: 0 auto; padding: 1.5rem 1.2rem 4rem; max-width: 62rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; border-bottom: 1px solid #ccc;
  padding-bottom: .2rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
.summary { border-left: 4px solid #00598c; background: #f3f7fa; padding: .7rem 1rem;
  margin: 1rem 0; }
.summary p { margin: .35rem 0; }
.summary p.doubt { font-weight: 650; color: #8a1c00; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1rem;
  font-size: .92rem; }
a { color: #00598c; }
.skipped { color: #4a4a4a; font-style: italic; }
.small { font-size: .88rem; color: #4a4a4a; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0 1rem; font-size: .92rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .28rem .6rem; border-bottom: 1px solid #ddd; text-align: left;
  vertical-align: top; }
thead th { border-bottom: 2px solid #888; white-space: nowrap; }
tbody th { font-weight: 600; }
th > div, td > div { max-width: 24rem; overflow-wrap: break-word; }
th > div { max-width: 18rem; }
th.number { text-align: right; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td ul { margin: 0; padding-left: 1.1rem; }
.verdict { font-weight: 650; white-space: nowrap; }
figure { margin: 1rem 0; }
figcaption { font-size: .88rem; color: #333; }
img.picture { max-width: 100%; height: auto; }
img.formula { vertical-align: middle; max-height: 2.4em; max-width: 22rem;
  object-fit: contain; object-position: left; }
details { margin: .5rem 0; border: 1px solid #ddd; border-radius: 4px; padding: .3rem .8rem; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
code { font-size: .92em; overflow-wrap: break-word; }
blockquote { margin: .6rem 0; padding: .4rem 1rem; border-left: 3px solid #888;
  overflow-wrap: anywhere; }
.tolerance { border: 1px solid #ccc; border-radius: 4px; padding: .6rem 1rem; margin: 1rem 0; }
.tolerance input { width: min(24rem, 60vw); vertical-align: middle; }
.tolerance dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem;
  margin: .5rem 0 0; }
.tolerance dt { font-weight: 650; } .tolerance dd { margin: 0; overflow-wrap: anywhere; }
th.sorts { cursor: pointer; }
th[aria-sort=ascending]::after { content: " ▲"; } th[aria-sort=descending]::after { content: " ▼"; }
@media screen and (min-width: 90rem) { body { max-width: 82rem; }
  td:last-child > div { min-width: 12rem; }
  .summary, main > section > p, main > section > ul, blockquote, figcaption { max-width: 62rem; } }
@media screen and (max-width: 46rem) {
  .wide { overflow-x: visible; } table, caption, tbody, tr, tbody th, td { display: block; }
  thead { display: none; } tr { padding: .5rem 0; border-bottom: 1px solid #ccc; }
  th, td { border: none; padding: .1rem 0; } th > div, td > div { max-width: none; }
  td { display: grid; grid-template-columns: 8.5rem 1fr; gap: .6rem; overflow-wrap: anywhere; }
  td::before { content: attr(data-head); color: #4a4a4a; }
  td.number { text-align: left; white-space: normal; }
  td[data-head=value] { display: block; } td[data-head=value]::before { content: none; }
  .tolerance dl { grid-template-columns: 1fr; } .tolerance dd { margin-bottom: .4rem; }
  figure { overflow-x: auto; } img.picture { max-width: max(100%, 34rem); }
  img.formula { max-width: 100%; } details { padding: .3rem .5rem; } }
@media screen and (prefers-color-scheme: dark) {
  body { background: #16191d; color: #e6e6e6; } a { color: #7fc4f0; }
  .summary { background: #1f2a33; border-left-color: #5fb0e6; }
  .summary p.doubt { color: #ffab91; }
  .small, .skipped, figcaption { color: #b9bec4; } h2 { border-bottom-color: #555; }
  th, td { border-bottom-color: #3a3f45; } details, .tolerance { border-color: #3a3f45; }
  .verdict { filter: brightness(1.9) saturate(.8); }
  td::before { color: #b9bec4; } img.formula { filter: invert(.9); }
  img.picture { background: #fff; border-radius: 3px; padding: 2px; } }
@media print { nav, .tolerance { display: none; }
  body { font-size: 10.5pt; max-width: none; padding: 0; }
  h2 { break-after: avoid; } figure, tr, .summary { break-inside: avoid; }
  .wide { overflow: visible; } details { border: none; padding: 0; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; } }
"""


def as_page(report: Report, drawing: Any = None) -> str:
    """The whole page.

    Args:
        report: the report.
        drawing: the `Fields` of its study, if there are any.
    """
    parts = [
        ("verdicts", "Verdicts", page_parts.verdicts(report) + tolerance_slider(report)),
        ("interventions", "Interventions and pairs of terms", page_interventions(report)),
        ("profiles", "Profiles: parts of terms", page_profiles(report)),
        ("maps", "Where and when each change matters", page_maps(report, drawing)),
        ("scope", "What the verdicts hold for", page_parts.scope(report)),
        ("observables", "Observables", page_parts.observables(report)),
        ("constraint", "Constraint class", page_data.constraint(report)),
        ("design", "What the data can tell", page_data.design(report)),
        *_with_sensors(report, drawing),
        ("screening", "Screening", page_data.screening(report)),
        ("gap", "Residual contribution against deletion score", page_parts.gap(report)),
        ("fields", "Fields with and without each term", page_parts.fields(report, drawing)),
        ("certificates", "How each error bar was obtained", page_parts.certificates(report)),
        ("cost", "Cost and convergence", page_data.cost(report)),
        ("environment", "Environment", page_data.environment(report)),
    ]
    missing = [(title, why) for _, title, part in parts if (why := absent(part)) is not None]
    parts = [part for part in parts if absent(part[2]) is None]
    if missing:
        told = bullets(Raw(f"{text(title)}: {why}") for title, why in missing)
        parts.append(("absent", "Not part of this report", Raw(f'<div class="small">{told}</div>')))
    links = "".join(f'<li><a href="#{key}">{text(title)}</a></li>' for key, title, _ in parts)
    body = "".join(section(*part) for part in parts)
    fields = ", ".join(report.sections["scope"].get("library", {})) or ", ".join(report.terms)
    title = f"Which terms matter? {len(report.terms)} candidate terms: {fields}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" '
        f'href="data:,"><title>{text(title[:160])}</title><style>{STYLE}</style></head>\n'
        '<body><header><h1>Which terms matter?</h1><p class="small">'
        f"Deletion study of {len(report.terms)} candidate terms; report of schema "
        f"{SCHEMA}.</p>{summary(report)}</header>"
        f'<nav aria-label="Contents"><ul>{links}</ul></nav><main>{body}</main>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _with_sensors(report: Report, drawing: Any) -> list[tuple[str, str, str]]:
    """The parts about sensors, where a study has any."""
    seen = any((term.sensors or {}).get("visibility") for term in report.terms.values())
    if not seen and "skipped" in report.sections["calibration"]:
        return []
    return [
        ("calibration", "Sensors and calibration", page_sensors.calibration(report, drawing)),
        (
            "identifiability",
            "What sensors can tell",
            page_sensors.identifiability(report),
        ),
    ]


def summary(report: Report) -> Raw:
    """Whether the fit can be believed, and the three sentences."""
    first = screen_sentence(report)
    told = [paragraph(first, "doubt" if first.startswith("NOT") else "")] if first else []
    if second := notice(report):
        told.append(paragraph(second, "doubt"))
    told += [paragraph(sentence) for sentence in sentences(report)]
    if seen := sensor_sentence(report):
        told.insert(-1, paragraph(seen))
    more = (interventions_sentence(report), places_sentence(report))
    told += [paragraph(sentence) for sentence in more if sentence]
    return Raw(f'<div class="summary">{"".join(told)}</div>')


def as_snippet(report: Report) -> str:
    """The sentences, the table of verdicts and its picture for a notebook, without styles
    that reach beyond it.
    """
    scope = paragraph(report.sections["scope"].get("sentence", ""))
    return (
        f"<div>{summary(report)}{page_parts.verdict_table(report)}{error_bars(report)}{scope}</div>"
    )
