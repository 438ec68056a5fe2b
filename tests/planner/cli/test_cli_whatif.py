"""whatif, explain and report from the command line: documents, tables, files, exit codes, messages."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner.report.charts import vega

MAX_SEQ = ("whatif", "max-seq", "--model", "llama3-8b", "--hw", "dgx-h100", "--devices", "8", "--global-batch", "1")
SWEEP = (
    "whatif",
    "sweep",
    "--model",
    "llama3-8b",
    "--hw",
    "dgx-h100",
    "--seq",
    "64k",
    "--vary",
    "hbm=40GiB,80GiB",
    "--vary",
    "seq=64k..256k",
)


def test_max_seq_is_exact_by_estimate(lcplan):
    """The bar as a script checks it: the answer fits, one step further does not, by ``lcplan estimate``."""
    answer = lcplan(*MAX_SEQ, "--format", "json")
    assert answer.code == 0
    found = answer.json["answer"]
    assert next(iter(answer.json)) == "schema_version"
    assert answer.json["question"] == "max-seq"
    assert answer.json["request"]["workload"]["seq_len"] == found["seq_len"]
    strategy = found["candidate"]["strategy"]
    assert found["step"] % (128 * strategy["mesh"]["context"]) == 0
    mesh = ",".join(f"{axis}={size}" for axis, size in strategy["mesh"].items() if axis != "expert")
    knobs = [part for name in ("scheme", "remat", "backend", "microbatches") for part in (f"--{name}", str(strategy[name]))]
    for seq, fits in ((found["seq_len"], True), (found["seq_len"] + found["step"], False)):
        asked = ("--model", "llama3-8b", "--hw", "dgx-h100", "--seq", str(seq), "--global-batch", "1")
        estimate = lcplan("estimate", *asked, "--mesh", mesh, *knobs, "--format", "json")
        assert estimate.code == 0
        assert estimate.json["candidate"]["estimate"]["fits"] is fits
        search = lcplan("search", *asked, "--stages", "modelled")
        assert search.code == (0 if fits else 1)


def test_the_first_change_raises_the_answer_from_the_command_line(lcplan):
    found = lcplan(*MAX_SEQ, "--format", "json").json["answer"]
    assert found["binds"] == "working_set"  # what a layer keeps waits on the host
    first = found["changes"][0]
    again = lcplan(*MAX_SEQ, *first["arguments"], "--format", "json").json["answer"]
    assert again["seq_len"] == first["then_seq_len"] > found["seq_len"]


def test_tables_fit_100_columns_and_have_no_colour_when_piped(lcplan):
    for command in (MAX_SEQ, SWEEP):
        answer = lcplan(*command)
        assert answer.code == 0
        assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 100
        assert "\x1b" not in answer.out
    assert "saved activations" in lcplan(*SWEEP).out


def test_sweep_documents(lcplan):
    document = lcplan(*SWEEP, "--format", "json").json
    assert document["answer"] is None
    assert [(point["hbm"], point["seq"]) for point in document["points"]] == [
        (hbm * 2**30, seq * 1024) for hbm in (40, 80) for seq in (64, 128, 256)
    ]
    for point in document["points"]:
        assert point["candidate"]["strategy"]["devices"] <= 8
        assert point["binds"]
    rows = list(csv.DictReader(io.StringIO(lcplan(*SWEEP, "--format", "csv").out)))
    assert len(rows) == 6
    assert {"varied_hbm_bytes", "varied_seq_len", "binds", "step_s"} <= set(rows[0])


def test_a_point_without_any_strategy_is_an_answer(lcplan):
    answer = lcplan(
        "whatif",
        "sweep",
        "--model",
        "llama3-8b",
        "--hw",
        "dgx-h100",
        "--seq",
        "64k",
        "--vary",
        "tensor=1,7",
        "--format",
        "json",
    )
    assert answer.code == 0
    assert [point["candidate"] is None for point in answer.json["points"]] == [False, True]
    assert answer.json["points"][1]["binds_kind"] == "rule"
    csv_answer = lcplan(
        "whatif", "sweep", "--model", "llama3-8b", "--hw", "dgx-h100", "--seq", "64k", "--vary", "tensor=7,1", "--format", "csv"
    )
    assert len(csv_answer.out.splitlines()) == 3


def test_a_boundary_that_finds_nothing_exits_1_and_says_what_would_help(lcplan):
    answer = lcplan("whatif", "min-devices", "--model", "llama3.1-70b", "--seq", "128k", "--hw", "dgx-h100")
    assert answer.code == 1
    assert "nothing fits" in answer.out
    assert "--hw dgx-h100x4" in answer.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("max-seq", "--seq", "64k"), "max-seq finds the sequence length; leave --seq out"),
        (("min-devices",), "min-devices needs a sequence length: give --seq"),
        (("sweep", "--seq", "64k"), "sweep: over what? give --vary"),
        (
            ("sweep", "--seq", "64k", "--vary", "hbm=1GiB", "--budget", "2GiB"),
            "--budget fixes the quantity that --vary hbm",
        ),
        (("sweep", "--seq", "64k", "--vary", "devices=9"), "--vary devices=9: dgx-h100 has 8"),
        (("max-seq", "--vary", "seq=8k"), "max-seq finds seq_len; vary something else"),
        (("max-len",), "'max-len' is not one of"),
        (("max-seq", "--devices", "9"), "devices=9 is more than the 8 of dgx-h100"),
    ],
)
def test_bad_questions(lcplan, arguments, says):
    answer = lcplan("whatif", *arguments, "--model", "llama3-8b", "--hw", "dgx-h100")
    assert answer.code == 2
    assert says in answer.err
    assert answer.out == ""


def test_price_and_energy(lcplan):
    cost = lcplan(*MAX_SEQ, "--price", "2.5", "--format", "json").json["answer"]["cost"]
    assert cost["usd_per_1b_tokens"] == pytest.approx(2.5 * cost["device_hours_per_1b_tokens"])
    assert cost["device_kwh_per_1b_tokens"] == pytest.approx(0.7 * cost["device_hours_per_1b_tokens"])
    assert "USD" in lcplan(*MAX_SEQ, "--price", "2.5").out


def test_whatif_and_explain_load_nothing_heavy(tmp_path):
    """Every analytic command starts without jax, optuna, a plotting library or pandas."""
    heavy = ("jax", "optuna", "matplotlib", "vl_convert", "pandas", "flax")
    code = (
        "import sys; from planner.cli.main import run; code = run(sys.argv[1:]);"
        f"print('LOADED', code, [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    run = ("search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "modelled")
    planner.search(model="llama3-8b", seq="64k", hw="dgx-h100", out=str(tmp_path / "kept"))
    for arguments in (MAX_SEQ, SWEEP, run, ("explain", "kept")):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines()[-1] == "LOADED 0 []", arguments


def test_explain_and_report_of_a_run(lcplan):
    assert (
        lcplan(
            "search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "modelled", "--out", "run"
        ).code
        == 0
    )
    answer = lcplan("explain", "run")
    assert answer.code == 0
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 100
    for words in (
        "Where the bytes go",
        "Where the seconds go",
        "exposed",
        "Basis: ",
        "Why not another",
        "Changes that would alter the choice",
    ):
        assert words in answer.out
    document = lcplan("explain", "run", "2", "--format", "json").json
    assert document["verdict"]["reason"] == "time"
    both = lcplan("explain", "run", "1", "2")
    assert "2 less 1" in both.out
    assert len(lcplan("explain", "run", "1", "2", "--format", "csv").out.splitlines()) > 10
    assert lcplan("explain", "run", "1", "2", "3").code == 2
    assert lcplan("explain", "elsewhere").err == "lcplan: elsewhere: no such file or folder\n"


@pytest.mark.skipif(not vega.available(), reason="needs the report's packages")
def test_search_leaves_a_report_and_report_writes_plots(lcplan):
    answer = lcplan(
        "search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "modelled", "--out", "run"
    )
    assert "report: run/report.html" in answer.out
    assert Path("run/report.html").stat().st_size < 5 * 10**6
    written = lcplan("report", "run", "--out", "page.html", "--plots", "figures", "--format", "json").json["files"]
    assert written[0] == "page.html"
    assert {Path(file).suffix for file in written[1:]} == {".png", ".svg"}
    assert all(Path(file).stat().st_size > 1000 for file in written)
    assert lcplan("report", "run", "--out", ".").code == 2


def test_without_the_extra_the_search_stands_and_says_so(lcplan, monkeypatch):
    monkeypatch.setattr(vega, "find_spec", lambda name: None)
    answer = lcplan(
        "search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "modelled", "--out", "run"
    )
    assert answer.code == 0
    assert "note: no report.html: the report needs packages that are installed with lcplan" in answer.err
    report = lcplan("report", "run")
    assert report.code == 3
    assert 'pip install --upgrade "lcplan"' in report.err


def test_no_color_is_respected_on_a_terminal(tmp_path):
    """Through a pseudo-terminal: colours without NO_COLOR, none with it."""
    run = "import sys; from planner.cli.main import run; sys.exit(run(sys.argv[1:]))"
    outputs = {}
    for name, extra in (("plain", {"NO_COLOR": "1"}), ("colour", {})):
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **extra}
        environment = {key: value for key, value in environment.items() if key != "NO_COLOR" or name == "plain"}
        spawn = f"import pty, sys; pty.spawn([sys.executable, '-c', {run!r}, *{list(MAX_SEQ)!r}])"
        outputs[name] = subprocess.run(
            [sys.executable, "-c", spawn], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
    assert "\x1b[1;32m" in outputs["colour"]
    assert "\x1b[1;32m" not in outputs["plain"]
    assert "max-seq" in outputs["plain"]


def test_a_sweep_over_rollouts_shows_their_layouts(lcplan):
    sizes = ["--prompt", "256", "--generate", "256", "--batch", "64"]
    asked = ["--workload", "sample", "--model", "qwen3-1.7b", "--hw", "tpu-v4-32", *sizes, "--vary", "batch=64,128"]
    answer = lcplan("whatif", "sweep", *asked)
    assert answer.code == 0
    headings = next(line.split() for line in answer.out.splitlines() if line.startswith("batch"))
    assert headings[:4] == ["batch", "mesh", "parameters", "cache"]


def test_the_largest_batch_of_a_rollout_needs_no_batch(lcplan):
    asked = ["--model", "qwen3-1.7b", "--hw", "tpu-v4-32", "--prompt", "256", "--generate", "1024"]
    answer = lcplan("whatif", "max-batch", "--workload", "sample", *asked)
    assert answer.code == 0
    assert "max-batch: 3,520 sequences" in answer.out
    refused = lcplan("whatif", "max-batch", "--workload", "rl", *asked)
    assert refused.code == 2
    assert "max-batch is asked of a train step or a rollout" in refused.err
    assert "--batch" not in refused.err.replace("batch=..", "")
