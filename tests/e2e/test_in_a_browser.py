"""Pages as a browser shows them: complete, without errors, on a phone and printed."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import pytest

from pipeline.planning import page as plan_page
from pipeline.reports import facts
from pipeline.reports import page as report_page
from tests.pipeline.planning import measured
from tests.pipeline.planning.outlooks import outlooks
from tests.pipeline.reports import scene
from tests.trainer.comparison import compared
from trainer.comparison import page as compare_page

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PHONE = 390  # pixels
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium"),
]
# Nothing but the page is to be fetched.
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--virtual-time-budget=4000",
    "--enable-logging=stderr",
)


def _report(folder):
    return report_page.render(facts.gather(scene.make(folder), now=scene.BEGAN + 200))


def _compare(folder):
    return compare_page.render_page([compared.result(compared.WORSE)])


def _plan(folder):
    found = outlooks()
    calibrated = [measured.calibration()]
    return plan_page.render("Plan", found, calibrated, lead="A job", chosen=found[0])


@pytest.fixture(params=[_report, _compare, _plan])
def text(request, tmp_path):
    """A page."""
    return request.param(tmp_path)


def _browse(folder, text, *flags):
    """Returns what the browser prints of a page, and what it logs."""
    path = folder / "page.html"
    path.write_text(text)
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, "--headless", *_QUIET, profile, *flags, path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


def test_all_headings_are_there_and_nothing_fails(tmp_path, text):
    shown, logged = _browse(tmp_path, text, "--dump-dom")
    headings = re.findall("<h[12]>(.*?)</h[12]>", text)
    assert len(headings) > 2
    assert re.findall("<h[12]>(.*?)</h[12]>", shown) == headings
    assert "CONSOLE" not in logged


def test_on_a_phone_no_page_is_wider_than_the_screen(tmp_path, text):
    """A page around it measures: it needs a script, and these have none."""
    around = (
        f'<iframe style="border:0" width={PHONE} height=800 srcdoc="{html.escape(text)}" '
        'onload="document.title = this.contentDocument.documentElement.scrollWidth"></iframe>'
    )
    shown, _ = _browse(tmp_path, around, "--dump-dom")
    assert re.search("<title>(.*?)</title>", shown)[1] == str(PHONE)


def test_it_can_be_printed(tmp_path, text):
    printed = tmp_path / "page.pdf"
    _browse(tmp_path, text, f"--print-to-pdf={printed}")
    assert len(re.findall(rb"/Type /Page\b", printed.read_bytes())) > 0
