"""The dtype knobs in the program: what the moments are kept in, what weights are gathered and gradients reduced in."""

import re

import jax
import jax.numpy as jnp
import pytest
from compiled_step import lower_on_host
from equality import Case, errors
from test_step_equality import PLAIN

from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.train.step import build_step

WIDTH = {"bf16": "bf16", "fp32": "f32"}


def moved_in(strategy, op):
    """Element types of every ``op`` over fsdp in the lowered program (before XLA widens bf16 for the host)."""
    text = lower_on_host(strategy).as_text()
    found = re.findall(rf'"stablehlo\.{op}"\(.*?\) <\{{.*?\}}>.*?: \(tensor<[\dx]*x(\w+)>\)', text, re.DOTALL)
    assert found, f"no {op}"
    return set(found)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_weights_are_gathered_in_gather_dtype(dtype):
    assert moved_in(Strategy(mesh=Mesh(fsdp=2), gather_dtype=dtype), "all_gather") == {WIDTH[dtype]}


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_gradients_are_reduced_in_reduce_dtype(dtype):
    strategy = Strategy(mesh=Mesh(fsdp=2), reduce_dtype=dtype)
    assert moved_in(strategy, "reduce_scatter") == {WIDTH[dtype]}


@pytest.mark.parametrize("mode", ["manual", "auto"])
def test_bf16_gradients_are_close_and_not_the_same(mode):
    narrow = Strategy(mesh=Mesh(fsdp=2), sharding_mode=mode, gather_dtype="fp32", reduce_dtype="bf16")
    found = errors(Case(PLAIN, narrow))
    assert found["loss"] < 1e-5  # gradients alone are rounded
    assert 1e-5 < found["['layers']['feed_forward']['down']"] < 0.01


@pytest.mark.parametrize(("dtype", "kept"), [("fp32", jnp.float32), ("bf16", jnp.bfloat16)])
def test_moments_are_kept_in_moments_dtype_and_masters_in_fp32(dtype, kept):
    spec = StepSpec(PLAIN, Workload(seq_len=32, global_batch=4), Strategy(mesh=Mesh(fsdp=2), moments_dtype=dtype), "blockwise")
    state, _ = build_step(spec, build_mesh(spec.strategy, jax.devices()[:2])).abstract_arguments()
    moments = [x for x in jax.tree.leaves(state.optimizer) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert len(moments) == 2 * len(jax.tree.leaves(state.params))
    assert {x.dtype for x in moments} == {jnp.dtype(kept)}
    assert {x.dtype for x in jax.tree.leaves(state.params)} == {jnp.dtype(jnp.float32)}
