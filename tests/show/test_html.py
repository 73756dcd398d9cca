"""The page of a sweep: complete, sound HTML, and good in a real browser."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from fedcell import Scenario
from fedcell.experiments.executors import Inline
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.paper.load import Edition
from fedcell.paper.reproduce import Reproduction
from fedcell.paper.verdicts import Finding, Verdict
from fedcell.show.html import report_page, write_report

VOID = ("meta", "img", "br", "source")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Sound(HTMLParser):
    """Fails where tags do not close as they opened; keeps words and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.addresses += [v for k, v in attrs if k in ("src", "srcset", "href") and v]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    experiment = Experiment.sweep(
        Scenario(),
        {"plan.cohort": [5, 10, 20]},
        seeds=2,
        rounds=5,
        policies=("even", "optimal"),
        title="<costs> & more",
    )
    table = run_sweep(experiment, Store(tmp_path_factory.mktemp("store")), Inline()).table
    claim = Verdict(claim="C_u < K", where="all", finding=Finding("not held"), number="+3 %")
    return Reproduction(panel="fig6a", edition=Edition(), table=table, verdicts=(claim,))


def test_a_page_has_everything_and_needs_nothing(panel):
    page = report_page(panel, "fedcell reproduce 'x y'")
    sound = Sound(page)
    text = " ".join(sound.words)
    for words in ("<costs> & more", "C_u < K", "not held", "+3 %", "12 runs", "numpy"):
        assert words in text
    assert "fedcell reproduce 'x y'" in text
    assert '"cohort"' in text  # what was asked
    assert sound.addresses
    assert all(address.startswith("data:image/svg+xml;base64,") for address in sound.addresses)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)


def test_the_same_sweep_gives_the_same_page(panel):
    assert report_page(panel) == report_page(panel)


def test_text_of_files_is_no_markup(panel):
    assert "<costs>" not in report_page(panel)


@pytest.mark.extras
@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_a_browser_draws_it_and_sorts_its_tables(panel, tmp_path):
    assert BROWSER is not None
    file = tmp_path / "report.html"
    write_report(file, panel)
    watched = file.read_text().replace(
        "<head>", "<head><script>onerror = () => document.title = 'FAU' + 'LT'</script>"
    )
    clicking = watched.replace(
        "</body>",
        "<script>document.querySelectorAll('table.sortable')[0]"
        ".querySelectorAll('th')[0].firstElementChild.click();"
        "document.querySelectorAll('table.sortable')[0]"
        ".querySelectorAll('th')[0].firstElementChild.click();"
        "</script></body>",
    )
    file.write_text(clicking)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}"]
    drawn = subprocess.run(
        [BROWSER, *flags, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120
    ).stdout
    body = drawn.split("<tbody>")[1].split("</tbody>")[0]
    firsts = [int(row) for row in re.findall(r"<tr><td[^>]*>(\d+)</td>", body)]
    assert firsts == sorted(firsts, reverse=True) and len(set(firsts)) == 3  # noqa: PT018
    assert 'aria-sort="descending"' in drawn
    assert "FAULT" not in drawn
    picture = tmp_path / "page.png"
    subprocess.run(
        [BROWSER, *flags, f"--screenshot={picture}", "--window-size=390,900", file.as_uri()],
        capture_output=True,
        timeout=120,
    )
    assert picture.stat().st_size > 10_000
