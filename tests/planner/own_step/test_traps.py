"""Steps that need devices that are absent: each gets an error that names the line and a fix, or the target's answer."""

import pytest
from own_steps import written

from planner.measure.step_file.file import StepFile
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.own_step.request import StepOptions, build_step_request
from planner.own_step.search import StepBench
from planner.own_step.space import Declared, enumerate_points

HEAD = """
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
LCPLAN = {"axes": {"x": "rows"}}
def build(mesh, strategy, workload):
    rows = NamedSharding(mesh, P("x"))
    a = jax.ShapeDtypeStruct((1024, 256), jnp.bfloat16, sharding=rows)
"""
LINE = 9
"""The line after the head."""


def outcome(folder, body, hw="dgx-h100"):
    """The compile of a step whose build ends with ``body``."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    path = written(folder, HEAD + lines + "\n", "trap.py")
    request = build_step_request(StepOptions(step=str(path), hw=hw, devices=8))
    declared = Declared.of(request)
    bench = StepBench(request, StepFile.of(path), probe(), PoolLimits(jobs=1))
    (found,) = bench.compile(enumerate_points(request, declared).allowed, declared)
    return found.compiled


NO_ARRAYS = "no array can be made on absent devices: make shapes with jax.eval_shape"
TRAPS = {
    "device_put": ("return jax.jit(lambda a: a), (jax.device_put(jnp.ones((8, 8)), rows),)", f"trap.py:{LINE}: ", NO_ARRAYS),
    "init": (
        "made = jax.jit(lambda k: jax.random.normal(k, (8, 8)), out_shardings=rows)(jax.random.key(0))\n"
        "return jax.jit(lambda a: a), (made,)",
        f"trap.py:{LINE}: ",
        NO_ARRAYS,
    ),
    "eager": (
        "with jax.set_mesh(mesh):\n    b = jnp.zeros((8, 8)) + 1\nreturn jax.jit(lambda a: a + b), (a,)",
        f"trap.py:{LINE + 1}: ",
        NO_ARRAYS,
    ),
    "io_callback": (
        "return jax.jit(lambda a: (jax.experimental.io_callback(lambda x: None, None, a.sum()), a)[1]), (a,)",
        f"trap.py:{LINE}: ",
        "a callback needs the host of the devices",
    ),
    "pure_callback": (
        "return jax.jit(lambda a: jax.pure_callback(lambda x: x, a, a)), (a,)",
        f"trap.py:{LINE}: ",
        "a callback needs the host of the devices",
    ),
    "ffi": (
        "return jax.jit(lambda a: jax.ffi.ffi_call('my_kernel', jax.ShapeDtypeStruct(a.shape, a.dtype))(a)), (a,)",
        "my_kernel",
        "the kernel's library is not loaded in this Python",
    ),
    "memory_stats": ("mesh.devices.flat[0].memory_stats()", f"trap.py:{LINE}: ", "absent devices have no memory in use"),
    "array of this machine": (
        "b = jax.device_put(jnp.ones((1024, 256), jnp.bfloat16), jax.devices('cpu')[0])\n"
        "return jax.jit(lambda a, b: a + b), (a, b)",
        "incompatible devices",
        "use the mesh that build is given",
    ),
    "does not divide": (
        "return jax.jit(lambda a: a), (jax.ShapeDtypeStruct((3, 4), jnp.float32, sharding=rows),)",
        "dimension size is 3",
        "add a rule to LCPLAN",
    ),
    "part of the mesh": (
        "two = NamedSharding(Mesh(mesh.devices.flat[:2], ('q',)), P('q'))\n"
        "return jax.jit(lambda a: a), (jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=two),)",
        "compiled for 2 gpu devices, not for 8 of h100-sxm-80gb",
        "its arguments are on a part of the mesh",
    ),
    "missing module": (
        "import no_such_module",
        f"trap.py:{LINE}: ModuleNotFoundError",
        "give the Python that trains with --toolchain",
    ),
    "another result": ("return 3", "trap.py: build returned int", "it returns (jitted, abstract_args)"),
    "no sharding": (
        "return jax.jit(lambda a: a + 1), (jax.ShapeDtypeStruct((8, 8), jnp.float32),)",
        "compiled for 1 cpu device, not for 8 of h100-sxm-80gb",
        "no argument is on the mesh",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_explained(tmp_path, name, gpu):
    body, place, way = TRAPS[name]
    error = outcome(tmp_path, body).error
    assert place in error
    assert way in error


def test_a_step_that_would_compile_for_one_host_device_is_an_error(tmp_path):
    body, _, _ = TRAPS["no sharding"]
    assert "compiled for 1 cpu device, not for 8" in outcome(tmp_path, body, hw="cpu-host").error


@pytest.mark.slow
def test_questions_about_devices_are_answered_for_the_target(tmp_path, gpu):
    found = outcome(
        tmp_path,
        "assert (jax.default_backend(), jax.device_count(), jax.process_count()) == ('gpu', 8, 1)\n"
        "assert jax.devices() == list(mesh.devices.flat) and jax.devices('cpu')[0].platform == 'cpu'\n"
        "own = jax.make_mesh((4, 2), ('p', 'q'))\n"
        "b = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(own, P('p', 'q')))\n"
        "return jax.jit(lambda b: (jax.debug.print('{}', b.sum()), b * 2)[1]), (b,)",
    )
    assert found.error is None
    assert f"trap.py:{LINE + 4}: jax.debug.print is left out: there is no host of the absent devices to call" in found.warnings
