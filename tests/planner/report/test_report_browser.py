"""The report in a real browser, from disk: it renders, says nothing on the console, asks nobody, hovers and filters."""

import shutil
from dataclasses import dataclass, field

import pytest

from planner.report.charts import vega
from planner.report.html.page import Report, write_report
from planner.run.run_read import read_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = "html[data-ready=yes]"

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on PATH (Debian: apt-get install chromium)"),
    pytest.mark.skipif(not vega.available(), reason="needs the report's packages"),
]


@dataclass
class Watched:
    """A page with all that it said and asked."""

    page: object
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_report(browser, finished_run):
    """Write a run's report and open it from disk."""
    pages = []

    def _open(request=None, **context):
        folder = finished_run(request)
        write_report(Report.of(read_run(folder)), folder / "report.html")
        page = browser.new_page(viewport={"width": 1180, "height": 900}, **context)
        pages.append(page)
        watched = Watched(page)
        page.on("console", lambda message: watched.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: watched.said.append(f"error: {error}"))
        page.on("request", lambda asked: watched.asked.append(asked.url))
        page.goto((folder / "report.html").as_uri())
        page.wait_for_selector(READY, timeout=60_000)
        return watched

    yield _open
    for page in pages:
        page.close()


def test_it_renders_in_silence_and_asks_nobody(open_report):
    watched = open_report()
    assert watched.said == []
    assert len(watched.asked) == 1
    assert watched.asked[0].startswith("file://")
    charts = watched.page.locator(".chart svg")
    assert charts.count() == 6
    for index in range(charts.count()):
        box = charts.nth(index).bounding_box()
        assert box["width"] > 100
        assert box["height"] > 30


def test_hovering_a_dot_shows_its_strategy(open_report):
    page = open_report().page
    winner = page.locator("#chart-pareto .mark-symbol.role-mark path").last
    winner.scroll_into_view_if_needed()
    box = winner.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for(timeout=10_000)
    assert page.locator(".winner").inner_text() in tooltip.inner_text()
    assert "winner" in tooltip.inner_text()


def test_filters_act_on_the_chart_and_on_the_table(open_report):
    page = open_report().page
    dots = page.locator("#chart-pareto .mark-symbol.role-mark path")
    rows = page.locator("#candidates tbody tr:visible")
    before, shown = dots.count(), rows.count()
    scheme = page.locator("#candidates tbody tr").first.get_attribute("data-scheme")
    page.select_option("#filter-scheme", scheme)
    page.wait_for_function(f"document.querySelectorAll('#chart-pareto .mark-symbol.role-mark path').length < {before}")
    assert 0 < dots.count() < before
    assert {row.get_attribute("data-scheme") for row in rows.all()} == {scheme}
    assert page.locator("#shown").inner_text() == f"{rows.count()} of {shown} shown"
    page.select_option("#filter-scheme", "all")
    page.wait_for_function(f"document.querySelectorAll('#chart-pareto .mark-symbol.role-mark path').length == {before}")
    assert rows.count() == shown


def test_keyboard_reaches_controls_tables_and_buttons(open_report):
    page = open_report().page
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.id || document.activeElement.className || document.activeElement.tagName")
        )
    assert {"skip", "filter-scheme", "filter-remat", "filter-fitting", "scroll", "SUMMARY"} <= reached
    page.locator("#chart-pareto ~ details summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#chart-pareto ~ details table").is_visible()


def test_charts_and_tables_have_names_for_screen_readers(open_report):
    page = open_report().page
    for chart in page.locator(".chart").all():
        assert chart.get_attribute("aria-label")
        assert chart.locator("svg").first.get_attribute("aria-label") or chart.locator("[aria-label]").count()
    assert (
        page.locator("table caption").count()
        == page.locator("table").count() - page.locator("#vg-tooltip-element table").count()
    )
    assert page.locator("h1").count() == 1


def test_copying_says_so(open_report):
    watched = open_report()
    page = watched.page
    page.locator("summary", has_text="jax:").click()
    page.locator("button[data-copy=export-jax-0]").click()
    page.wait_for_function("document.getElementById('copied').textContent.length > 0")
    assert page.locator("#copied").inner_text().startswith(("Copied jax: train_step.py", "Selected"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(open_report, scheme):
    page = open_report(color_scheme=scheme).page
    ratios = page.evaluate(
        CONTRAST, ["body", ".asked", ".verdict", ".winner", "summary", "thead th", ".facts dt", "#chart-pareto"]
    )
    assert min(ratios) >= 4.5, ratios


def test_on_paper_everything_is_open_and_black_on_white(open_report):
    page = open_report(color_scheme="dark").page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#chart-pareto ~ details table").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator(".controls").is_visible()


def test_a_run_in_which_nothing_fits_renders_in_silence(open_report, ask):
    watched = open_report(ask("llama3.1-70b", "dgx-h100", seq=262144, batch=16))
    assert watched.said == []
    assert watched.page.locator(".verdict").inner_text() == "Nothing fits; this comes closest"
    assert "--hw dgx-h100x4" in watched.page.locator(".answer ol").inner_text()


def test_a_rack_and_a_slice_render_in_silence(open_report, ask, tmp_path):
    watched = open_report(ask("llama3-8b", "gb200-nvl72", seq=262144, batch=16))
    assert watched.said == []
    assert watched.page.locator("#chart-mesh svg").count() == 1


CONTRAST = """
(selectors) => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const rgb = parse(getComputedStyle(at).backgroundColor);
      if (rgb.length === 3 || rgb[3] > 0) return rgb;
    }
    return [255, 255, 255];
  };
  return selectors.map((selector) => {
    const one = document.querySelector(selector);
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(ground(one))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}
"""
