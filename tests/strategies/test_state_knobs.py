"""What the step keeps for each parameter: dtypes, bytes, and updates that still train."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_step_equality import PLAIN

from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.parts import StepMemory
from lcplan.catalog import hardware
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.train.moments import Blocks, decode, encode
from strategies.train.optimizer import apply_updates
from strategies.train.step import build_step

WORKLOAD = Workload(seq_len=32, global_batch=4)


def step_of(**knobs):
    spec = StepSpec(PLAIN, WORKLOAD, Strategy(mesh=Mesh(fsdp=2), **knobs), "blockwise")
    return build_step(spec, build_mesh(spec.strategy, jax.devices()[:2]))


def held(tree):
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree) if x.size > PLAIN.layers * PLAIN.d_model)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"master_dtype": "none", "moments_dtype": "bf16"},
        {"master_dtype": "bf16", "optimizer": "lion"},
        {"optimizer": "sgd"},
    ],
    ids=str,
)
def test_the_step_keeps_the_bytes_of_the_law(knobs):
    state, _ = step_of(**knobs).abstract_arguments()
    machine = hardware("dgx-h100")
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=2), **knobs)])
    law = StepMemory(Layout(Setting(PLAIN, machine, WORKLOAD, machine.usable_bytes), table))
    per_element = law.layout.state.master + law.layout.state.moments
    elements = held(state.params) / law.layout.state.master[0]
    assert held((state.params, state.optimizer)) == pytest.approx(per_element[0] * elements)


def test_moments_in_eight_bits_are_within_their_steps_and_never_lose_a_value():
    wide = jnp.asarray(np.random.default_rng(0).normal(size=(4, 512)) ** 2)
    for kind, close in (("int8", 0.02), ("fp8", 0.14)):
        stored = encode(wide, kind, pieces=2)
        assert isinstance(stored, Blocks)
        assert (stored.codes.dtype.itemsize, stored.scales.shape) == (1, (4, 2))
        found = decode(stored)
        large = wide > 0.3 * stored.scales.max()
        assert np.abs(found / wide - 1)[large].max() < close
        assert (found > 0).all()


def test_a_block_never_crosses_a_shard():
    assert encode(jnp.ones((2, 96)), "int8", pieces=3).scales.shape == (2, 3)


def test_stochastic_rounding_keeps_small_updates_in_the_mean_and_nearest_loses_them():
    params, small = {"w": jnp.ones(4096, jnp.bfloat16)}, {"w": jnp.full(4096, 1e-3)}
    after = {
        name: apply_updates(params, small, strategy=Strategy(mesh=Mesh(), master_dtype=name), step=jnp.zeros((), jnp.int32))[
            "w"
        ]
        for name in ("bf16", "none")
    }
    assert (after["bf16"] == 1).all()
    assert float(after["none"].astype(jnp.float32).mean()) == pytest.approx(1.001, abs=2e-4)


@pytest.mark.parametrize(
    "knobs",
    [{"optimizer": "muon"}, {"optimizer": "adamw-8bit", "master_dtype": "none", "grad_dtype": "bf16", "microbatches": 2}],
    ids=str,
)
def test_training_lowers_the_loss(knobs):
    step = step_of(**knobs)
    state, batch = step.init(jax.random.key(0)), step.example_batch(jax.random.key(1))
    losses = []
    for _ in range(4):
        state, metrics = step.jitted(state, batch)
        losses.append(float(metrics.loss))
    assert losses == sorted(losses, reverse=True)
