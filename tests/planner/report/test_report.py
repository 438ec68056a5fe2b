"""The report without a browser: one file, no address in it that a page would ask, everything escaped, files of charts."""

import json
import re
from dataclasses import replace
from html import unescape
from io import StringIO

import pytest
from rich.console import Console

from lcplan.formats.errors import StageFailedError
from lcplan.strategy import Mesh, Strategy
from planner.report.charts import vega
from planner.report.charts.mesh_map import axis_places, mesh_map
from planner.report.charts.priced_sample import cloud
from planner.report.html.page import Report, write_report
from planner.report.html.plots import write_plots
from planner.report.terminal.candidates import candidate_table
from planner.run.run_read import read_run

MOST_BYTES = 5 * 10**6
needs_extra = pytest.mark.skipif(not vega.available(), reason="needs the report's packages")


@pytest.fixture
def run(finished_run):
    return read_run(finished_run())


@needs_extra
def test_one_small_file_that_asks_nobody(run, tmp_path):
    file = tmp_path / "deep" / "report.html"
    write_report(Report.of(run), file)
    page = file.read_text(encoding="utf-8")
    assert len(page.encode()) < MOST_BYTES
    outside = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href|action)=["'](?!#|data:)""", outside)
    assert "default-src 'none'" in page
    assert [file] == list(file.parent.iterdir())


@needs_extra
def test_the_same_run_gives_the_same_page(run):
    assert Report.of(run).html() == Report.of(run).html()


@needs_extra
def test_the_page_has_every_part(run):
    page = unescape(Report.of(run, price_usd_per_device_hour=2.0).html())
    titles = re.findall(r"<h2[^>]*>([^<]+)</h2>", page)
    for title in (
        "Step time against memory",
        "Candidates",
        "Memory by part",
        "Step time by part",
        "The mesh on the hardware",
        "From the space to the survivors",
        "Collectives of the winner's step",
        "Why not another",
        "Changes that would alter the answer",
        "The plan",
    ):
        assert title in titles
    assert run.winner.strategy.label in page
    assert "USD" in page
    for rule, example in run.rejected_examples.items():
        assert f"rejected by rule {rule}" in page
        assert f"<td>{example}</td>" in page


def test_charts_are_valid_and_have_their_figures(run):
    report = Report.of(run)
    assert {chart.name for chart in report.charts} == {"pareto", "memory", "time", "mesh", "funnel", "collectives"}
    for chart in report.charts:
        assert chart.figures.rows
        assert {len(row) for row in chart.figures.rows} == {len(chart.figures.headings)}
        assert chart.in_page()["description"] == chart.says
        json.dumps(chart.alone(), allow_nan=False)


def test_bars_are_the_estimates_parts(run):
    memory = next(chart for chart in Report.of(run).charts if chart.name == "memory")
    first = [value for value in memory.spec["data"]["values"] if value["candidate"].startswith("1 ")]
    total = run.winner.estimate["memory_bytes"]["total"]
    assert sum(value["value"] for value in first) * 2**30 == pytest.approx(total, rel=1e-4)


def test_the_cloud_holds_the_front_and_the_winner(run):
    dots = cloud(run.request, run.backends)
    front = [dot for dot in dots if dot.front]
    assert front
    for dot in front:
        assert not any(
            d.fits and d.step_s < dot.step_s and d.need_bytes < dot.need_bytes and d.devices <= dot.devices for d in dots
        )
    assert min(dot.step_s for dot in dots if dot.fits) == pytest.approx(run.winner.estimate["step_s"])


def test_the_mesh_map_says_which_axis_runs_over_what(run):
    strategy = Strategy(mesh=Mesh(fsdp=2, context=4, tensor=2))
    places = {place.axis: place for place in axis_places(strategy, run.request.hardware)}
    assert (places["tensor"].stride, places["context"].stride, places["fsdp"].stride) == (1, 2, 8)
    assert places["context"].link == "nvlink4"
    assert places["fsdp"].link == "ndr-infiniband"
    chart = mesh_map(strategy, run.request.hardware)
    groups = {}
    for value in chart.spec["data"]["values"]:
        groups.setdefault(value["panel"].split(" ")[0], []).append(value["group"] == "its group")
    assert {axis: sum(members) for axis, members in groups.items()} == {"fsdp": 2, "context": 4, "tensor": 2}
    assert [device for device, mine in enumerate(groups["fsdp"]) if mine] == [0, 8]
    assert mesh_map(Strategy(mesh=Mesh()), run.request.hardware) is None


@needs_extra
def test_plots_are_pictures(run, tmp_path):
    report = Report.of(run)
    files = write_plots(replace(report, charts=report.charts[:2]), tmp_path / "plots")
    assert [file.name for file in files] == ["pareto.png", "pareto.svg", "memory.png", "memory.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_text().startswith("<svg")


@needs_extra
def test_a_run_of_other_laws_is_told(run):
    told = "The cost models have changed since this run"
    assert told not in Report.of(run).html()
    older = replace(run.winner, estimate=run.winner.estimate | {"step_s": run.winner.estimate["step_s"] * 0.99})
    assert told in Report.of(replace(run, candidates=(older, *run.candidates[1:]))).html()


@needs_extra
def test_text_from_outside_is_escaped(run):
    evil = '</script><script>alert("x")</script>'
    report = Report.of(replace(run, notes=(evil,), rejected_examples=dict.fromkeys(run.rejected_examples, evil)))
    chart = replace(report.charts[0], title=evil, says=evil, note=evil)
    page = replace(report, charts=(chart, *report.charts[1:])).html()
    assert "<script>alert" not in page
    assert unescape(page).count(evil) > 4
    spec = re.search(r'<script type="application/json" id="spec-pareto">(.*?)</script>', page)[1]
    assert json.loads(spec)["description"] == evil


@needs_extra
def test_the_page_and_the_terminal_show_the_same_candidates(run):
    page = Report.of(run).html()
    table = re.search(r'<table id="candidates">.*?</table>', page, flags=re.DOTALL)[0]
    cells = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)]
    console = Console(width=140, file=StringIO(), color_system=None)
    console.print(candidate_table(run.shown, "Candidates", budget_bytes=run.request.budget_bytes))
    lines = console.file.getvalue().splitlines()[2:]
    assert len(lines) == len(cells) - 1 == len(run.shown)
    named = [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
    for line, row in zip(lines, named, strict=True):
        for heading in ("#", "scheme", "remat", "backend", "microbatches", "tokens/s"):
            assert f" {row[heading]} " in f" {line} "
        for heading in ("step", "memory", "headroom"):  # the terminal's headings have the units and the half-widths
            assert f" {row[heading].removesuffix(' GiB').partition(' ±')[0].removesuffix(' GiB')} " in f" {line} "


def test_without_the_extra_one_clear_message(run, monkeypatch, tmp_path):
    monkeypatch.setattr(vega, "find_spec", lambda name: None)
    with pytest.raises(StageFailedError, match="the report needs packages that are installed with lcplan"):
        write_report(Report.of(run), tmp_path / "report.html")
    assert not list(tmp_path.glob("report.html"))


@needs_extra
def test_the_bundle_is_made_once(monkeypatch, tmp_path):
    made = []

    class Converter:
        def get_vega_embed_version(self):
            return "0"

        def javascript_bundle(self, snippet):
            made.append(snippet)
            return "script"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vega, "require", Converter)
    assert [vega.javascript(), vega.javascript()] == ["script", "script"]
    assert len(made) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert vega.javascript() == "script"
    assert len(made) == 2


TRIALS = tuple(
    {"number": number, "strategy": f"context={2**number}", "rung": "modelled", "outcome": outcome, "step_s": step, "says": "so"}
    for number, (outcome, step) in enumerate(
        [("kept", 4.0), ("improved", 3.0), ("pruned", 3.5), ("rejected", None), ("pruned", 9.0)]
    )
)


def test_the_tuners_history_is_drawn_with_the_best_so_far(run):
    assert "tuning" not in {chart.name for chart in Report.of(run).charts}
    chart = next(chart for chart in Report.of(replace(run, tuning=TRIALS)).charts if chart.name == "tuning")
    line, dots = chart.spec["layer"]
    assert line["data"]["values"] == [{"number": 0, "best_s": 4.0}, {"number": 1, "best_s": 3.0}]
    assert [value["number"] for value in chart.spec["data"]["values"]] == [0, 1, 2]
    assert dots["encoding"]["color"]["scale"]["domain"] == ["improved", "kept", "pruned"]
    assert len(chart.figures.rows) == len(TRIALS)
    assert "1 trials" in chart.note
    json.dumps(chart.alone(), allow_nan=False)
