"""Results in a notebook: one line of text, the command's output as HTML, and the charts of the report."""

import pytest

import lcplan
from lcplan import BadInputError
from planner.report.charts import vega

JOB = {"model": "llama3-8b", "seq": "64k", "hw": "dgx-h100"}


@pytest.fixture(scope="module")
def found():
    return lcplan.search(**JOB, mesh={"context": 8})


def test_a_mesh_is_given_by_axis(found):
    assert {candidate.strategy.mesh.context for candidate in found.candidates} == {8}
    several = lcplan.search(**JOB, mesh={"context": (4, 8), "tensor": "1..2"}, remat="full")
    assert several.request.filters.mesh["context"].intervals == ((4, 4), (8, 8))
    assert several.request.filters.mesh["tensor"].intervals == ((1, 2),)


def test_text_is_one_short_line(found):
    for result in (
        found,
        lcplan.estimate(**JOB, mesh="context=8"),
        lcplan.whatif("max-seq", **JOB | {"seq": 128}, remat="full"),
    ):
        assert len(repr(result)) < 300
        assert "\n" not in repr(result)
        assert "llama3-8b" in repr(result) or "context=8" in repr(result)


def test_html_is_the_output_of_the_command(found):
    html = found._repr_html_()
    assert html.startswith("<pre ")
    assert f"Winner: {found.winner.strategy.label}" in html
    assert "Best strategy at each point" in lcplan.whatif("sweep", **JOB, vary="hbm=60GiB,70GiB")._repr_html_()


def test_a_result_compares_and_reads_as_that_of_the_command(found):
    assert lcplan.search(**JOB, mesh="context=8") == found
    assert found.to_json()["winner"] == found.winner.to_json()


@pytest.mark.skipif(not vega.available(), reason="needs the report's packages")
def test_a_plot_is_one_call(found, tmp_path):
    assert {"pareto", "funnel"} <= set(found.plots)
    plot = found.plot()
    assert plot.spec["$schema"].endswith("v6.json")
    assert plot._repr_mimebundle_()["image/svg+xml"].startswith("<svg")
    plot.save(tmp_path / "front.png")
    assert (tmp_path / "front.png").read_bytes()[1:4] == b"PNG"
    with pytest.raises(BadInputError, match="did you mean 'pareto'"):
        found.plot("pareot")
    with pytest.raises(BadInputError, match=r"\.png or \.svg"):
        plot.save(tmp_path / "front.jpg")
