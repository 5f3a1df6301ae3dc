"""The page of a report: whole HTML that fetches nothing and runs nothing, with text for every
picture, also in a real browser.
"""

from __future__ import annotations

import base64
import html
import io
import json
import re
import shutil
import subprocess
import sys
import types
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib.figure
import matplotlib.text
from report_samples import area, hostile, known, line, screened

import cffem as cf
from cffem.study.report.canvas import MARKS
from cffem.study.report.page import POLICY
from cffem.study.report.page_evidence import design
from cffem.study.report.page_script import CHECKSUM, SCRIPT
from cffem.study.report.plots.raster import Raster, palette
from cffem.study.report.report import Report

VOID = {"meta", "link", "img", "br", "input"}
PAGES = {
    "known": lambda: known().to_html(area()),
    "screened": lambda: screened().to_html(line()),
    "hostile": lambda: hostile().to_html(),
}


class Outline(HTMLParser):
    """Elements with their attributes; every end tag must close the element that is open."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def pages():
    return {name: make() for name, make in PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_whole_and_neither_runs_nor_fetches_anything(pages, name):
    outline = Outline(pages[name])
    # The page's own script, without a source, whose checksum the policy names; no other can run.
    assert outline.all("script") == [{}]
    policy = outline.all("meta")[1]["content"]
    assert policy == POLICY
    assert f"script-src '{CHECKSUM}'" in policy
    assert pages[name].count(f"<script>{SCRIPT}</script>") == 1
    assert not any(key.startswith("on") for _, attributes in outline.elements for key in attributes)
    for _, attributes in outline.elements:
        for key in ("src", "href"):
            assert key not in attributes or attributes[key].startswith(("data:", "#"))
    assert "@import" not in pages[name]
    assert "url(" not in pages[name]
    assert any("default-src 'none'" in (a.get("content") or "") for a in outline.all("meta"))


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_words_and_every_part_a_heading(pages, name):
    outline = Outline(pages[name])
    assert all(len((image.get("alt") or "").strip()) > 0 for image in outline.all("img"))
    assert "could not be drawn" not in pages[name]
    assert len(outline.all("h1")) == 1
    keys = {attributes.get("id") for attributes in outline.all("h2")}
    assert {link["href"].lstrip("#") for link in outline.all("a")} == keys
    assert all(part["aria-labelledby"] in keys for part in outline.all("section"))
    assert all(cell.get("scope") in ("row", "col") for cell in outline.all("th"))
    assert outline.all("html")[0]["lang"] == "en"


def test_the_page_holds_what_the_report_holds(pages):
    words = Outline(pages["known"]).words
    for text in (
        "div(E) = 0",
        "Friedrichs constant",
        "by its edges",
        "energy: Energy(E, at='end')",
        "ranks",
        "E with and without curl curl",
        "0 to 1, 20 steps",
        "How deleted problems were solved",
    ):
        assert text in words
    words = Outline(pages["screened"]).words
    for text in (
        "only α(u) − 19.74 α(lap) is identifiable",
        "mode 1×2",
        "least squares on the support",
        "4.0% from the data",
    ):
        assert text in words
    absent = words[words.index("Not part of this report", words.index("Environment")) :]
    assert "Constraint class: not part of this example" in absent


def pictures(page):
    """The pictures of a page as text."""
    found = re.findall(r'class="picture"[^>]*base64,([^"]*)"', page)
    return [base64.b64decode(data).decode() for data in found]


def test_pictures_are_written_without_mathematics_that_they_would_not_read(monkeypatch):
    # Names come from users, so dollars and backslashes in pictures are text.
    written = []

    def saved(figure, *arguments, **options):
        if not matplotlib.rcParams["text.parse_math"]:
            written.extend(text.get_text() for text in figure.findobj(matplotlib.text.Text))
        return saving(figure, *arguments, **options)

    saving = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", saved)
    for name in ("known", "screened"):
        for drawn in pictures(PAGES[name]()):
            written.extend(re.findall(r"<text[^>]*>([^<]*)</text>", drawn))
    assert "|⟨Aⱼ, Aₖ⟩|" in written
    assert "penalty λ (weaker to the right)" in written
    assert not [text for text in written if "$" in text or "\\" in text]


def test_names_in_pictures_are_text_and_no_markup(pages):
    drawn = pictures(pages["hostile"])
    assert len(drawn) == 2
    for sheet in drawn:
        assert {part.tag.split("}")[1] for part in ElementTree.fromstring(sheet).iter()} <= {
            "svg", "rect", "line", "path", "text", "circle", "polygon", "image",
        }  # fmt: skip
    assert "&lt;script&gt;alert(" in drawn[0]


def test_areas_are_filled_with_the_values_of_their_triangles():
    # Linear functions are linear in pixels, on cells of all sizes, and nothing is drawn outside.
    points = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0], [1.9, 0.1]])
    cells = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    raster = Raster(points, cells, 80)
    assert (raster.width, raster.height) == (80, 40)
    x, y = np.meshgrid((np.arange(80) + 0.5) / 40, (np.arange(40)[::-1] + 0.5) / 40)
    found = raster.values(3 * points[:, 0] - points[:, 1])
    inside = x >= y
    assert np.isfinite(found[inside]).all()
    assert np.isnan(found[x < y - 1e-9]).all()
    assert np.allclose(found[inside], (3 * x - y)[inside], atol=1e-5)
    image = pytest.importorskip("PIL.Image")
    address = raster.picture(points[:, 0], 0.0, 2.0, "viridis")
    shown = image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGBA")
    assert shown.size == (80, 40)
    assert shown.getpixel((0, 0))[3] == 0
    assert shown.getpixel((79, 39)) == (*palette("viridis")[252], 255)


def test_columns_that_are_nearly_the_same_are_told_from_columns_that_are():
    near = {
        "names": ["u", "lap"],
        "gram": [[1.0, 1e-7 - 1.0], [1e-7 - 1.0, 1.0]],
        "coherence": 1.0 - 1e-7,
        "selected": {"minimum_eigenvalue": 1e-7, "condition": 2e7},
    }
    report = known()
    shown = Outline(design(Report(report.terms, {**report.sections, "design": near})))
    assert "coherence μ1 − 1.0e-07" in shown.words
    assert "noise can be amplified up to 4472 times" in shown.words
    assert "The largest, 1 − 1.0e-07, is between u and lap." in shown.all("img")[0]["alt"]
    well = {
        **near,
        "gram": [[1.0, 0.5], [0.5, 1.0]],
        "coherence": 0.5,
        "selected": {"condition": 3.0},
    }
    shown = Outline(design(Report(report.terms, {**report.sections, "design": well})))
    assert "coherence μ0.5" in shown.words
    assert "every coefficient is identified up to noise." in shown.words


def test_pages_are_the_same_whenever_they_are_made(pages):
    assert PAGES["hostile"]() == pages["hostile"]


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(monkeypatch, tmp_path):
    shown = []
    stand_in = types.ModuleType("IPython.display")
    stand_in.HTML, stand_in.display = str, shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", stand_in)
    known().write(tmp_path)
    known().show()
    known().show(tmp_path)
    pages = [html.unescape(re.search(r'srcdoc="([^"]*)"', text)[1]) for text in shown]
    assert pages == [known().to_html(), (tmp_path / "report.html").read_text()]
    assert all('sandbox="allow-scripts"' in text for text in shown)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(cf.InputError, match="needs a notebook"):
        known().show()


def test_a_report_printed_in_a_notebook_is_text(monkeypatch):
    expected = str(known())
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(known()) == expected
    assert "relevant" in expected


def test_a_notebook_shows_the_same_verdicts():
    snippet = known()._repr_html_()
    assert "<style" not in snippet
    rows = re.search(r'id="verdict-table".*?<tbody>(.*?)</tbody>', snippet, flags=re.S)
    assert rows is not None
    assert rows[1].count("<tr>") == len(known().terms)


def test_colours_can_be_read_on_white():
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for mark in MARKS.values():
        assert 1.05 / (luminance(mark.colour) + 0.05) >= 4.5
    assert (
        len({mark.marker for mark in MARKS.values()})
        == len({mark.glyph for mark in MARKS.values()})
        == len(MARKS)
    )


# A real browser
# --------------------------------------------------------------------------------------------------

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
in_chromium = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here (Debian: apt install chromium)"
)


def chromium(folder, page, *options):
    """Open a page in headless Chromium; what it wrote, and the requests that the page (not
    the browser itself) made.
    """
    log = folder / "net.json"
    always = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--no-first-run",
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1100,3000",
        "--enable-logging=stderr",
        f"--log-net-log={log}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    done = subprocess.run(
        [BROWSER, *always, *options, page.as_uri()], capture_output=True, text=True, timeout=180
    )
    asked = [event.get("params") or {} for event in json.loads(log.read_text())["events"]]
    return done, [
        p["url"]
        for p in asked
        if p.get("initiator", "not an origin") != "not an origin" and "url" in p
    ]


@pytest.mark.slow
@in_chromium
def test_requests_and_errors_of_a_page_would_be_seen(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        '<img src="http://example.invalid/x.png"><script>throw new Error("seen")</script>'
    )
    done, requests = chromium(tmp_path, page, f"--screenshot={tmp_path / 'shot.png'}")
    assert requests == ["http://example.invalid/x.png"]
    assert "CONSOLE" in done.stderr


@pytest.mark.slow
@in_chromium
@pytest.mark.parametrize("name", PAGES)
def test_chromium_renders_the_page_without_errors_or_requests(pages, name, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(pages[name])
    done, requests = chromium(tmp_path, page, f"--screenshot={tmp_path / 'shot.png'}")
    assert "CONSOLE" not in done.stderr, done.stderr
    assert requests == []
    image = pytest.importorskip("PIL.Image").open(tmp_path / "shot.png").convert("RGB")
    assert image.size == (1100, 3000)
    colours = {colour: count for count, colour in image.getcolors(1100 * 3000)}
    assert len(colours) > 200
    made = {"known": known, "screened": screened, "hostile": hostile}[name]()
    for decision in {term.decision for term in made.terms.values()}:
        wanted = tuple(int(MARKS[decision].colour[i : i + 2], 16) for i in (1, 3, 5))
        assert colours.get(wanted, 0) > 20, f"{decision} is not to be seen"
    dom = chromium(tmp_path, page, "--dump-dom")[0].stdout
    rows = re.search(r'id="verdict-table".*?<tbody>(.*?)</tbody>', dom, flags=re.S)
    assert rows is not None
    assert rows[1].count("<tr>") == len(made.terms)
    assert dom.count("<script") == 1
    # The script has run: at the study's own tolerance the slider says what the table says.
    told = dict(re.findall(r'<dd data-verdict="(\w+)">(.*?)</dd>', dom))
    scored = [
        term for term in made.terms.values() if term.margin is not None and term.decision in told
    ]
    for term in scored if name == "known" else []:
        assert term.name in told[term.decision].split(", ")
    assert not scored or 'class="sorts"' in dom or "sorts" in dom
