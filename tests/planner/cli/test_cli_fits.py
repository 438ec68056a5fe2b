"""``lcplan fits`` through the command line."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "own_step"))
from own_steps import STEP, written

ONE = ("--hw", "cpu-host", "--mesh", "rows=2,cols=2", "--knob", "remat=full", "--seq", "64", "--global-batch", "8")
GROWN = STEP.replace("return jnp.tanh(x @ w), None", "return jnp.tanh(x @ w), (x @ w).astype(jnp.float32) * 2.0").replace(
    "    y, _ = jax.lax.scan(body, x, weights)\n        return (y.astype(jnp.float32) ** 2).mean()",
    "    y, more = jax.lax.scan(body, x, weights)\n        return (y.astype(jnp.float32) ** 2).mean() + jnp.sin(more).mean()",
)


@pytest.mark.slow
def test_a_grown_step_fails_against_its_baseline(lcplan, tmp_path):
    file = written(tmp_path)
    first = lcplan("fits", "my_step.py", *ONE, "--baseline", "fits.json")
    assert first.code == 0, first.err
    assert "baseline written: fits.json" in first.out
    assert lcplan("fits", "my_step.py", *ONE, "--baseline", "fits.json").code == 0
    file.write_text(GROWN)
    grown = lcplan("fits", "my_step.py", *ONE, "--baseline", "fits.json")
    assert grown.code == 1
    assert "grown: memory grew by" in grown.out
    assert "temp: " in grown.out


def test_a_run_is_compared_with_a_budget_by_its_own_compile(lcplan, tmp_path):
    written(tmp_path)
    go = ("search", "--step", "my_step.py", "--hw", "cpu-host", "--devices", "4", "--seq", "8", "--global-batch", "2")
    assert lcplan(*go, "--mesh", "rows=2", "--knob", "remat=full", "--out", "run").code == 0
    (tmp_path / "my_step.py").unlink()  # nothing runs it
    assert lcplan("fits", "run").code == 0
    answer = lcplan("fits", "run/plan.yaml", "--budget", "1KiB", "--format", "json")
    assert answer.code == 1
    (footprint,) = answer.json["footprints"]
    assert footprint["fits"] is False
    assert (
        footprint["total_bytes"] == json.loads((tmp_path / "run/result.json").read_text())["winner"]["compiled"]["total_bytes"]
    )
    for command in (("explain", "run"), ("report", "run"), ("export", "run/plan.yaml", "--to", "jax")):
        refused = lcplan(*command)
        assert refused.code == 2
        assert "of a step of your own; lcplan fits and lcplan inspect read it" in refused.err
    again = lcplan("fits", "run", "--toolchain", sys.executable)
    assert again.code == 2
    assert "a plan runs no file: name its step file with --step" in again.err


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("none.py", "--hw", "cpu-host"), "no such file or folder"),
        (("my_step.py",), "a step file needs --hw"),
        (("my_step.py", "--hw", "cpu-host", "--devices", "4", "--seq", "8", "--global-batch", "4"), "6 strategies are left"),
        (("my_step.py", *ONE, "--tolerance", "2x"), "give a share from 0% to 100%"),
        (("my_step.py", *ONE, "--update"), "--update writes the file of --baseline"),
    ],
)
def test_bad_input(lcplan, tmp_path, arguments, fault):
    written(tmp_path)
    answer = lcplan("fits", *arguments)
    assert answer.code == 2, answer.out
    assert fault in answer.err
