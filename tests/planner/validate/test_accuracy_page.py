"""docs/accuracy.md and its pictures are what the tables give now."""

import json
import re
from pathlib import Path

import pytest

from planner.report.charts.accuracy_pictures import (
    PICTURES,
    POINTS,
    drawn_facts,
    errors_chart,
    picture_name,
    predicted_chart,
    write_pictures,
)
from planner.report.markdown.accuracy import accuracy_page

PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"
ANEW = "make it anew: lcplan validate --page docs/accuracy.md"


def facts_in(picture):
    """What a picture says of itself."""
    return json.loads(re.search(r"<metadata>(.*?)</metadata>", picture.read_text())[1])


def test_the_page_is_not_stale(results):
    assert PAGE.read_text() == accuracy_page(results), ANEW


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_show_the_same_rows_and_errors(results, picture):
    """Numbers are compared, not drawings: another version of the renderer, or the last bit of an error, makes none stale."""
    shown, now = facts_in(PAGE.parent / picture_name(PAGE.stem, picture)), drawn_facts(results)
    assert shown["tables"].keys() == now["tables"].keys(), ANEW
    for name, (rows, error) in now["tables"].items():
        assert shown["tables"][name] == [rows, pytest.approx(error, abs=5e-4)], f"{name}: {ANEW}"
    for kind, bins in now["bins"].items():
        counts = {side: dict(found) for side, found in (("shown", shown["bins"][kind]), ("now", bins))}
        moved = sum(abs(counts["shown"].get(at, 0) - counts["now"].get(at, 0)) for at in {*counts["shown"], *counts["now"]})
        assert moved <= 4, f"{kind}: {ANEW}"


def test_charts_hold_every_row_once(results):
    bars = errors_chart(results)["data"]["values"]
    assert sum(bar["rows"] for bar in bars) == sum(rows for rows, _ in drawn_facts(results)["tables"].values())
    marks = predicted_chart(results)["data"]["values"]
    points = [mark for mark in marks if not mark["diagonal"]]
    vtrain = [mark for mark in points if mark["table"] == "vtrain-a100"]
    assert len(vtrain) == POINTS
    assert all(mark["measured"] == mark["predicted"] for mark in marks if mark["diagonal"])


def test_pictures_are_drawn_beside_the_page(results, tmp_path):
    pytest.importorskip("vl_convert")
    write_pictures(results[:2], tmp_path / "mine.md")
    for picture in PICTURES:
        assert facts_in(tmp_path / f"mine-{picture}.svg") == json.loads(json.dumps(drawn_facts(results[:2])))
    assert "![Predicted and measured values, one square per table](mine-predicted.svg)" in accuracy_page(results[:2], "mine")
