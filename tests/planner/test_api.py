"""The functions of ``planner``: the command line's answers as frozen values."""

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

import planner
from lcplan import catalog
from lcplan.formats.errors import BadInputError

ASKED = {"model": "llama3-8b", "seq": "64k", "hw": "dgx-h100"}


def test_search_is_the_commands_answer(capsys, tmp_path, monkeypatch):
    from json import loads

    from planner.cli.main import run

    monkeypatch.chdir(tmp_path)
    command = ["search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--remat", "full,none"]
    assert run([*command, "--stages", "modelled", "--format", "json"]) == 0
    document = loads(capsys.readouterr().out)
    found = planner.search(**ASKED, remat=("full", "none"))
    assert found.to_json()["candidates"] == document["candidates"]
    assert found.winner == found.candidates[0]


def test_documents_by_number_or_word():
    named, counted = (planner.estimate(**ASKED, mesh="context=8", document_len=length) for length in ("4k", 4096))
    assert named.to_json() == counted.to_json()
    assert named.request.workload.document_len == 4096
    assert planner.whatif("max-seq", model="llama3-8b", hw="dgx-h100", document_len="4k").found
    for wrong in (0, 2**17, "1.5", 1.5):
        with pytest.raises(BadInputError, match=r"document.len"):
            planner.estimate(**ASKED, document_len=wrong)


def test_a_share_of_the_layers_that_is_none_is_refused():
    half = planner.estimate(**ASKED, mesh="context=8", remat="offload-layer-in", offload_percent=50)
    assert half.candidate.strategy.remat_label == "offload-layer-in 50%"
    for wrong in (0, 101):
        with pytest.raises(BadInputError, match="offload-percent"):
            planner.estimate(**ASKED, mesh="context=8", remat="offload-layer-in", offload_percent=wrong)


def test_out_keeps_the_run(tmp_path):
    from planner.run.run_read import read_run

    found = planner.search(**ASKED, out=str(tmp_path / "run"))
    assert read_run(tmp_path / "run").winner.strategy == found.winner.strategy


def test_specs_and_plain_numbers_do_as_well():
    named = planner.estimate(**ASKED, mesh="context=8", remat="full", budget="40GiB")
    given = planner.estimate(
        model=catalog.model("llama3-8b"),
        seq=65536,
        hw=catalog.hardware("dgx-h100"),
        mesh="context=8",
        remat=["full"],
        budget=40 * 2**30,
    )
    assert given == named
    assert named.to_json()["candidate"]["strategy"]["devices"] == 8


def test_results_are_frozen():
    found = planner.whatif("max-seq", model="llama3-8b", hw="dgx-h100", global_batch=1)
    with pytest.raises(FrozenInstanceError):
        found.question = "sweep"
    assert found.answer.candidate.best.fits
    assert found.to_json()["answer"]["seq_len"] == found.answer.value


def test_frames():
    pandas = pytest.importorskip("pandas")
    points = planner.whatif("sweep", **ASKED, vary=("seq=32k,64k", "hbm=40GiB..160GiB")).to_pandas()
    assert isinstance(points, pandas.DataFrame)
    assert list(points["varied_seq_len"]) == [32768] * 3 + [65536] * 3
    assert (points.groupby("varied_seq_len")["step_s"].diff().dropna() <= 0).all()
    assert len(planner.search(**ASKED, survivors=3).to_pandas()) == 3


def test_bad_words_are_told_at_once():
    with pytest.raises(BadInputError) as caught:
        planner.search(model="llama3-8b")
    assert caught.value.problems == ("hw= is needed", "seq= is needed")
    with pytest.raises(BadInputError, match="unknown option 'remt'; did you mean 'remat'"):
        planner.search(**ASKED, remt="full")
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        _ = planner.serch


def test_importing_planner_is_free():
    code = "import planner, sys; print(sorted({'numpy', 'pydantic', 'jax', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seq": 0}, "--seq 0: a sequence has at least one token"),
        ({"microbatches": 0}, "--microbatches 0: a strategy takes at least 1"),
        ({"attention_block": -1}, "--attention-block -1: a strategy takes at least 0"),
        ({"ulysses": 2**21}, "--ulysses 2097152: a strategy takes at most 1048576"),
        ({"bidirectional": "both"}, "--bidirectional: unknown value 'both'"),
        ({"scheme": ("ring", "zigzg")}, "--scheme: unknown value 'zigzg'; did you mean 'ring-zigzag'?"),
    ],
)
def test_values_that_no_strategy_has_are_bad_input(options, says):
    run = {"model": "llama3.2-1b", "hw": "dgx-h100", "seq": "8k", "mesh": "fsdp=4"}
    with pytest.raises(BadInputError, match=re.escape(says)):
        planner.estimate(**run | options)


def test_the_largest_batch_of_a_rollout_needs_no_batch():
    found = planner.whatif("max-batch", workload="sample", model="qwen3-1.7b", hw="tpu-v4-32", prompt=256, generate=1024)
    assert found.answer is not None
    assert found.answer.value == 3520
