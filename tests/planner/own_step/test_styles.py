"""The examples of docs/examples/own-step compile: jit, shard_map, flax NNX and linen, equinox."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from planner.measure.step_file.file import StepFile
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.own_step.request import StepOptions, build_step_request
from planner.own_step.search import StepBench
from planner.own_step.space import Declared, enumerate_points

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "own-step"
SMALL = {"DIM": 64, "HEADS": 4, "HIDDEN": 128, "LAYERS": 2, "VOCAB": 256}
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def small(folder, name):
    """The example with small sizes."""

    def shrink(match):
        names = match[1].split(", ")
        return f"{match[1]} = {', '.join(str(SMALL[one]) for one in names)}"

    text = re.sub(r"^((?:[A-Z]+, )+[A-Z]+) = [\d, ]+$", shrink, (EXAMPLES / f"{name}.py").read_text(), flags=re.MULTILINE)
    text = text.replace('"32 % model == 0"', '"4 % model == 0"').replace('"16 % model == 0"', '"4 % model == 0"')
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def compiled(path, hw, strategies=1):
    options = StepOptions(step=str(path), hw=hw, devices=4, seq=32, global_batch=8)
    request = build_step_request(options)
    declared = Declared.of(request)
    chosen = enumerate_points(request, declared).allowed[-strategies:]
    bench = StepBench(request, StepFile.of(path), probe(), PoolLimits(jobs=1))
    return list(bench.compile(chosen, declared))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_compiles_for_its_target(tmp_path, name, gpu):
    if "equinox" in name and find_spec("equinox") is None:
        pytest.skip("equinox is not installed")
    found = compiled(small(tmp_path, name), "dgx-h100", strategies=2)
    for one in found:
        assert one.compiled.error is None
        assert one.compiled.rung == "compiled:target"
        assert one.compiled.total_bytes > 0
        assert one.step_s > 0
        axes = {use.axis.partition("/")[0] for use in one.compiled.collectives}
        assert axes <= {*one.strategy.mesh, "+".join(one.strategy.mesh), "?"}
    donated = {"flax_linen": False}.get(name, True)
    assert (found[0].compiled.alias_bytes > 0) == donated


def test_an_example_compiles_for_host_devices(tmp_path):
    (found,) = compiled(small(tmp_path, "shard_mapped"), "cpu-host")
    assert found.compiled.error is None
    axes = {use.axis for use in found.compiled.collectives}
    assert {"fsdp", "sequence"} & axes
    assert any(buffer.line.startswith("shard_mapped.py:") for buffer in found.compiled.buffers)
