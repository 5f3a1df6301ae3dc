# SPDX-License-Identifier: MIT
"""Pieces of HTML: everything that comes from a report goes through `text`, so that no name
can become markup.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from cffem.study.report.canvas import mark
from cffem.study.report.summary import plain

ABSENT = "Not part of this report: "
SHOWN = 40  # entries of a list that are written out


class Raw(str):
    """Text that is HTML already."""


def text(value: object) -> str:
    """A value as escaped text.

    Example:
        >>> text("<script>"), text(None), text(0.000123456), text(True)
        ('&lt;script&gt;', '–', '1.23e-04', 'yes')
    """
    if isinstance(value, Raw):
        return str(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return html.escape(plain(str(value)), quote=True)


def number(value: float | None) -> str:
    """A number with three digits, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 1e3 <= abs(value) < 1e5:
        return f"{value:.0f}"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e3 else f"{value:.2e}"


def verdict(decision: str) -> Raw:
    """A verdict as its shape and word; colour only repeats what they say."""
    look = mark(decision)
    return Raw(
        f'<span class="verdict" style="color:{look.colour}"><span '
        f'aria-hidden="true">{look.glyph}</span> {text(look.word)}</span>'
    )


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], name: str = ""
) -> Raw:
    """A table with a caption, column heads and the first cell of each row as its head; numbers are
    aligned right.

    A last column in which nothing stands, reasons that nobody needs, is left out. Each cell knows
    the head of its column: on a narrow screen the cells of a row stand below each other, each
    behind its head, so that no column is cut.
    """
    rows = list(rows)
    if rows and all(row[-1] == "" for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    numeric = [bool(rows) and all(_is_numeric(row[k]) for row in rows) for k in range(len(head))]
    top = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{text(cell)}</th>'
        for cell, right in zip(head, numeric, strict=True)
    )
    labels = [html.escape(plain(name), quote=True) for name in head]
    body = []
    for row in rows:
        cells = "".join(
            f'<td class="number" data-head="{name}">{text(cell)}</td>'
            if _is_numeric(cell)
            else f'<td data-head="{name}"><div>{text(cell)}</div></td>'
            for name, cell in zip(labels[1:], row[1:], strict=True)
        )
        body.append(f'<tr><th scope="row"><div>{text(row[0])}</div></th>{cells}</tr>')
    key = f' id="{html.escape(name, quote=True)}"' if name else ""
    return Raw(
        f'<div class="wide"><table{key}><caption>{text(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _is_numeric(cell: object) -> bool:
    return cell is None or isinstance(cell, int | float)


def facts(caption: str, pairs: Iterable[tuple[str, object]]) -> Raw:
    """A table of two columns."""
    return table(
        caption, ("item", "value"), [(key, Raw(text(anything(value)))) for key, value in pairs]
    )


def anything(value: Any) -> Any:
    """Any JSON value: numbers and words as they are, lists and mappings as lists."""
    if isinstance(value, Mapping):
        items = "".join(
            f"<li>{text(key)}: {text(anything(item))}</li>"
            for key, item in list(value.items())[:SHOWN]
        )
        return Raw(f"<ul>{items}{_more(value)}</ul>") if value else "none"
    if isinstance(value, list | tuple):
        if not value:
            return "none"
        if all(isinstance(item, str | int | float) for item in value):
            return Raw(
                ", ".join(text(item) for item in value[:SHOWN])
                + (" …" if len(value) > SHOWN else "")
            )
        items = "".join(f"<li>{text(anything(item))}</li>" for item in value[:SHOWN])
        return Raw(f"<ul>{items}{_more(value)}</ul>")
    return value


def _more(value: Sized) -> str:
    return f"<li>and {len(value) - SHOWN} more in report.json</li>" if len(value) > SHOWN else ""


def paragraph(content: object, kind: str = "") -> Raw:
    """A paragraph."""
    return Raw(f"<p{f' class={kind}' if kind else ''}>{text(content)}</p>")


def bullets(items: Iterable[object]) -> Raw:
    """A list."""
    return Raw(f"<ul>{''.join(f'<li>{text(item)}</li>' for item in items)}</ul>")


def details(summary: object, *content: str) -> Raw:
    """A part that opens on demand."""
    return Raw(f"<details><summary>{text(summary)}</summary>{''.join(content)}</details>")


def figure(content: str, caption: str) -> Raw:
    """A picture with its caption."""
    return Raw(f"<figure>{content}<figcaption>{text(caption)}</figcaption></figure>")


def section(key: str, title: str, *content: str) -> Raw:
    """A part of the page with its heading."""
    return Raw(
        f'<section aria-labelledby="{key}"><h2 '
        f'id="{key}">{text(title)}</h2>{"".join(content)}</section>'
    )


def absent(content: str) -> str | None:
    """Why a part of the page is empty, if its content says nothing else; None where it does."""
    start, end = f"<p class=skipped>{ABSENT}", "</p>"
    whole = content.startswith(start) and content.find(end) == len(content) - len(end)
    return content[len(start) : -len(end)] if whole else None


def skipped(part: Mapping[str, Any]) -> Raw | None:
    """Why a section is empty; None where it is not."""
    return paragraph(f"{ABSENT}{part['skipped']}", "skipped") if "skipped" in part else None
