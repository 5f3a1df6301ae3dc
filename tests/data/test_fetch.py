"""Fetching large files: tried again where it broke off, checked, refused when changed, and one
sentence without a network.
"""

from __future__ import annotations

import http.server
import threading
from dataclasses import replace

import pytest

pytest.importorskip("pooch")
pytest.importorskip("requests")

import cffem as cf
from cffem.cli import main
from cffem.data.readers import fetch as fetching
from cffem.data.readers.registry_data import DataUnavailable

CONTENT = b"CDF\x01" + bytes(range(256)) * 3000


class Server(http.server.BaseHTTPRequestHandler):
    """Serves one file, and breaks off the first answers in the middle."""

    protocol_version = "HTTP/1.1"
    breaks: int
    asked: list[str]
    page: bytes

    def do_GET(self):
        self.asked.append(self.path)
        if "1999" in self.path:
            self.send_error(404)
            return
        rest = self.page
        self.send_response(200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if type(self).breaks > 0:
            type(self).breaks -= 1
            rest = rest[: len(rest) // 2]
            self.close_connection = True
        self.wfile.write(rest)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    handler = type("Handler", (Server,), {"breaks": 0, "asked": [], "page": CONTENT})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{running.server_port}/{{variable}}.{{year}}.nc"
    monkeypatch.setitem(
        fetching.PROVIDERS, "oisst", replace(fetching.PROVIDERS["oisst"], address=address)
    )
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield handler
    running.shutdown()
    running.server_close()


def test_a_broken_download_is_tried_again(server, tmp_path):
    server.breaks = 1
    (path,) = fetching.fetch("oisst", [2015], tmp_path)
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == 2
    assert fetching.fetch("oisst", [2015], tmp_path) == [path]
    assert len(server.asked) == 2  # nothing is asked for again


def test_nothing_is_left_of_a_download_that_fails(server, tmp_path):
    server.breaks = 1 + fetching.RETRIES
    with pytest.raises(DataUnavailable, match="could not be downloaded"):
        fetching.fetch("oisst", [2015], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_bar_shows_how_much_has_come(server, tmp_path):
    (path,) = fetching.fetch("oisst", [2015], tmp_path, progress=True)
    assert path.read_bytes() == CONTENT
    bar = fetching.Bar("sst")
    bar.total = 10
    bar.update(4)
    assert (bar.total, bar._shown.tasks[0].completed) == (10, 4)
    bar.close()


def test_changed_files_and_error_pages_are_refused(server, tmp_path):
    (path,) = fetching.fetch("oisst", [2015], tmp_path)
    path.write_bytes(CONTENT + b"x")
    with pytest.raises(DataUnavailable, match="has changed since it was fetched"):
        fetching.fetch("oisst", [2015], tmp_path)
    server.page = b"<html>busy</html>"
    with pytest.raises(DataUnavailable, match="is no NetCDF file"):
        fetching.fetch("oisst", [2016], tmp_path)
    assert not (tmp_path / "sst.day.mean.2016.nc").exists()
    with pytest.raises(DataUnavailable, match="the server answered 404"):
        fetching.fetch("oisst", [1999], tmp_path)


def test_the_command_prints_the_files_and_refuses_unknown_sets_and_years(server, tmp_path, capsys):
    assert main(["fetch", "oisst", "--years", "2015-2016", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.split()
    assert printed == [str(tmp_path / f"sst.day.mean.{year}.nc") for year in (2015, 2016)]
    assert main(["fetch", "oist", "--out", str(tmp_path)]) == 2
    assert "there are: oisst, ncep" in capsys.readouterr().err
    assert main(["fetch", "oisst", "--years", "1900", "--out", str(tmp_path)]) == 2
    assert "begins in 1981" in capsys.readouterr().err
    assert main(["fetch", "oisst", "--years", "last", "--out", str(tmp_path)]) == 2
    assert "years are given as" in capsys.readouterr().err


def test_offline_is_one_sentence(monkeypatch, tmp_path):
    gone = replace(fetching.PROVIDERS["oisst"], address="http://127.0.0.1:9/{variable}.{year}.nc")
    monkeypatch.setitem(fetching.PROVIDERS, "oisst", gone)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(cf.InputError, match="bring the file by other means") as error:
        fetching.fetch("oisst", [2015], tmp_path)
    assert "\n" not in str(error.value)
