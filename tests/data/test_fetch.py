"""Fetching large files: resumed where it broke off, checked, refused when changed, and one
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
    """Serves one file with ranges, and breaks off the first answers in the middle."""

    protocol_version = "HTTP/1.1"
    breaks: int
    asked: list[str | None]
    page: bytes

    def do_GET(self):
        self.asked.append(self.headers.get("Range"))
        if "1999" in self.path:
            self.send_error(404)
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        rest = self.page[start:]
        self.send_response(206 if start else 200)
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


def test_a_broken_download_is_resumed(server, tmp_path):
    server.breaks = 1
    with pytest.raises(DataUnavailable, match="could not be downloaded"):
        fetching.fetch("oisst", [2015], tmp_path)
    part = tmp_path / "sst.day.mean.2015.nc.part"
    got = part.stat().st_size
    assert 0.3 * len(CONTENT) < got < 0.6 * len(CONTENT)
    (path,) = fetching.fetch("oisst", [2015], tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked[-1] == f"bytes={got}-"
    assert not part.exists()
    asked = len(server.asked)
    assert fetching.fetch("oisst", [2015], tmp_path) == [path]
    assert len(server.asked) == asked  # nothing is asked for again


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
