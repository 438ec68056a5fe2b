"""The modelled search and the estimate, from the command line to their documents and files."""

import csv
import io
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from lcplan import Plan
from planner.measure.targets.backends import backend_verdict

MAIN = ("search", "--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72")
MODELLED = (*MAIN, "--stages", "modelled")


def test_the_document(lcplan):
    answer = lcplan(*MODELLED, "--format", "json")
    assert answer.code == 0
    document = answer.json
    assert next(iter(document)) == "schema_version"
    assert document["request"]["model"]["parameters"] == 8_030_261_248
    assert document["request"]["hardware"]["devices"] == 72
    assert document["request"]["workload"]["global_batch"] == 16
    space = document["space"]
    assert space["enumerated"] == sum(space["rejected"].values()) + space["estimated"]
    assert space["enumerated"] > 20_000
    assert space["survivors"] == len(document["candidates"]) == 8
    assert document["winner"] == document["candidates"][0]
    winner = document["winner"]
    assert winner["compiled"] is None
    assert winner["timed"] is None
    assert winner["best"]["rung"] == "modelled"
    assert winner["strategy"]["devices"] <= 72
    parts = dict(winner["estimate"]["memory_bytes"])
    assert parts.pop("total") == pytest.approx(sum(parts.values()))
    assert winner["estimate"]["step_s"] == pytest.approx(sum(winner["estimate"]["time_s"].values()))


def test_the_plan_loads_by_itself_and_says_how_to_run(lcplan):
    lcplan(*MODELLED, "--out", "run")
    plan = Plan.load("run/plan.yaml")
    assert plan.request.model.parameters == 8_030_261_248
    assert plan.launch.processes * plan.launch.devices_per_process == plan.strategy.devices
    assert len(plan.mesh_axes) == len(plan.mesh_shape) == 5
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" in plan.environment
    copied = Path("copy.yaml")
    plan.save(copied)
    assert Plan.load(copied) == plan


@pytest.mark.skipif(backend_verdict("nvshmem", version("jax")) is not True, reason="this jax has no real NVSHMEM backend")
def test_the_nvshmem_plan_sets_the_flag_and_one_process_a_device(lcplan):
    answer = lcplan(*MODELLED, "--backend", "nvshmem", "--devices", "32", "--out", "run")
    assert answer.code == 0
    plan = Plan.load("run/plan.yaml")
    assert plan.xla_flags == ("--xla_gpu_experimental_enable_nvshmem=true",)
    assert (plan.launch.processes, plan.launch.devices_per_process) == (32, 1)


def test_the_table_fits_100_columns_and_has_no_colour_when_piped(lcplan):
    answer = lcplan(*MODELLED, "-v")
    assert answer.code == 0
    assert max(len(line) for line in answer.out.splitlines() if not line.startswith("next: ")) <= 100
    assert "\x1b" not in answer.out
    for words in ("Winner:", "Best candidates", "Rejected, by the first rule", "~ modelled", "plan: lcplan-runs/"):
        assert words in answer.out


def test_csv_has_a_row_a_candidate(lcplan):
    rows = list(csv.DictReader(io.StringIO(lcplan(*MODELLED, "--survivors", "3", "--format", "csv").out)))
    assert len(rows) == 3
    assert {row["rung"] for row in rows} == {"modelled"}
    assert float(rows[0]["tokens_per_s"]) >= float(rows[1]["tokens_per_s"])


@pytest.mark.parametrize("objective", ["tokens_per_s", "tokens_per_s_per_device", "step_s"])
def test_objectives_put_their_best_first(lcplan, objective):
    document = lcplan(*MODELLED, "--objective", objective, "--format", "json").json
    value = {
        "tokens_per_s": lambda c: c["best"]["tokens_per_s"],
        "tokens_per_s_per_device": lambda c: c["best"]["tokens_per_s"] / c["strategy"]["devices"],
        "step_s": lambda c: -c["best"]["step_s"],
    }[objective]
    values = [value(candidate) for candidate in document["candidates"]]
    assert values == sorted(values, reverse=True)


def test_filters_reach_the_winner(lcplan):
    document = lcplan(
        *MODELLED, "--mesh", "context=16,tensor=2", "--scheme", "ring", "--remat", "full", "--devices", "32", "--format", "json"
    ).json
    strategy = document["winner"]["strategy"]
    assert strategy["mesh"] == {"data": 1, "fsdp": 1, "context": 16, "tensor": 2, "expert": 1}
    assert (strategy["scheme"], strategy["remat"], strategy["devices"]) == ("ring", "full", 32)


def test_a_filter_that_is_given_twice_has_the_values_of_both(lcplan):
    """The last one alone would be another search than the one that was asked for."""
    twice = ("--mesh", "context=16", "--mesh", "tensor=2", "--remat", "full", "--remat", "none", "--microbatches", "16")
    filters = lcplan(*MODELLED, *twice, "--format", "json").json["request"]["filters"]
    once = ("--mesh", "context=16,tensor=2", "--remat", "full,none", "--microbatches", "16")
    assert filters == lcplan(*MODELLED, *once, "--format", "json").json["request"]["filters"]
    answer = lcplan(*MODELLED, "--mesh", "context=16", "--mesh", "context=8")
    assert (answer.code, answer.err) == (2, "lcplan: --mesh: axis 'context' is given twice\n")


def test_a_clock_that_is_not_here_ends_a_search_before_it_compiles(lcplan, monkeypatch):
    monkeypatch.setattr("planner.measure.targets.at_hand.gpu_names", lambda: ())
    answer = lcplan("search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "timed")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == (
        "lcplan: dgx-h100: --stages timed may take 8 devices, 0 of them are here; use --stages compiled, or an --engine"
        " whose workers have them\n"
    )


@pytest.mark.parametrize("asked", ["--time", "--slice"])
def test_a_rank_that_no_device_here_runs_ends_an_estimate_before_it_compiles(lcplan, monkeypatch, asked):
    for place in ("targets.at_hand", "jobs"):
        monkeypatch.setattr(f"planner.measure.{place}.gpu_names", lambda: ())
    answer = lcplan("estimate", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--mesh", "context=8", asked)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("lcplan: dgx-h100: a slice runs on a device of its kind: ")


def test_nothing_fits_says_what_would(lcplan):
    answer = lcplan(*MODELLED, "--devices", "4", "--budget", "20GiB")
    assert answer.code == 1
    assert "Nearest miss:" in answer.out
    assert "would fit:" in answer.out
    document = lcplan(*MODELLED, "--devices", "4", "--budget", "20GiB", "--format", "json").json
    assert document["winner"] is None
    assert document["nearest_miss"]["estimate"]["fits"] is False


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("--devices", "7"), ("Nothing to price: every strategy breaks a rule", "would fit: --devices 4 (fewer,")),
        (("--devices", "16", "--mesh", "tensor=64"), ("no mesh of this many devices has the sizes that --mesh asks for",)),
    ],
)
def test_where_the_rules_leave_nothing_it_says_so(lcplan, asked, says):
    answer = lcplan(*MODELLED, *asked)
    assert answer.code == 1
    assert all(text in answer.out for text in says)
    assert "no candidate fits" not in answer.out


def test_estimate_that_does_not_fit_is_an_answer(lcplan):
    answer = lcplan(
        "estimate", "--model", "llama3.1-405b", "--seq", "8k", "--hw", "dgx-h100", "--mesh", "fsdp=8", "--format", "json"
    )
    assert answer.code == 0
    candidate = answer.json["candidate"]
    assert candidate["estimate"]["fits"] is False
    assert candidate["best"]["fits"] is False


@pytest.mark.parametrize("asked", [("--seq", "1"), ("--seq", "8k", "--global-batch", "4194304"), ("--seq", "4096m")])
def test_sizes_at_the_ends_of_what_a_workload_takes(lcplan, asked):
    """Four million sequences of one token are as many microbatches on one device, and 4 Gi tokens of one as many logits."""
    run = ("--model", "llama3.2-1b", "--hw", "dgx-h200", "--devices", "1", *asked)
    estimated = lcplan("estimate", *run, "--format", "json").json["candidate"]
    tokens = estimated["estimate"]["tokens_per_s"] * estimated["estimate"]["step_s"]
    sizes = lcplan("search", *run, "--stages", "modelled", "--format", "json").json["request"]["workload"]
    assert tokens == pytest.approx(sizes["seq_len"] * sizes["global_batch"])


def test_estimate_fills_in_what_is_left_open(lcplan):
    strategy = lcplan(
        "estimate",
        "--model",
        "llama3-8b",
        "--seq",
        "256k",
        "--hw",
        "gb200-nvl72",
        "--mesh",
        "context=16,tensor=2",
        "--format",
        "json",
    ).json["candidate"]["strategy"]
    assert (strategy["scheme"], strategy["remat"], strategy["microbatches"]) == ("ring-zigzag", "full", 16)


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_the_catalogue(lcplan, kind):
    names = [row["name"] for row in lcplan("catalog", kind, "--format", "json").json[kind]]
    assert {"models": "llama3-8b", "hardware": "gb200-nvl72"}[kind] in names
    table = lcplan("catalog", kind)
    assert max(map(len, table.out.splitlines())) <= 100
    one = lcplan("catalog", kind, names[0])
    assert "source" in one.out


def test_doctor_tells_why_not(lcplan):
    answer = lcplan("doctor", "--quick", "--format", "json")
    assert answer.code == 0
    toolchain = answer.json["toolchains"][0]
    assert toolchain["python"] == sys.executable
    assert toolchain["targets"]["cpu"] is True
    assert all(verdict is True or len(verdict) > 10 for verdict in toolchain["backends"].values())


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom planner.cli.main import run\nrun(['--help'])\n"
        "print([m for m in ('jax','numpy','optuna','flax','optax','matplotlib','pydantic') if m in "
        "sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "lcplan search --model llama3-8b" in done.stdout


def test_a_modelled_search_loads_neither_jax_nor_optuna(tmp_path):
    code = (
        "import sys\nfrom planner.cli.main import run\n"
        "run('search --model llama3-8b --seq 256k --hw gb200-nvl72 --stages modelled --format json'.split())\n"
        "print([m for m in ('jax','optuna','flax','optax','matplotlib') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_no_error(tmp_path):
    command = f"{sys.executable} -c 'from planner.cli.main import main; main()' catalog models | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_no_color_is_respected(tmp_path):
    environment = os.environ | {"NO_COLOR": "1", "FORCE_COLOR": "", "TERM": "xterm"}
    command = [sys.executable, "-c", "from planner.cli.main import main; main()", "catalog", "models"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert "\x1b[3" not in done.stdout
