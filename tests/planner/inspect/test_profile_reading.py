"""Profiles in the formats of GPU, TPU and host: parts, hidden and exposed communication, idle time, steps."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_profiles import Plane, hlo, named, write

from lcplan.formats.errors import BadInputError
from planner.inspect.profile.busy import busy_time
from planner.inspect.profile.report import report_of

US = 1e-6
GPU_PROGRAM = hlo(
    [
        named(
            "all-gather-start.1", "all-gather-start", "jit(step)/all_gather", id=11, replica_groups=[{"replica_ids": [0, 1]}]
        ),
        named("all-gather-done.1", "all-gather-done", operand_ids=[11]),
        named("fusion.1", "fusion", "jit(step)/dot", called_computation_ids=[2]),
        named("custom-call.2", "custom-call", "jit(step)/jvp(attention)/x", custom_call_target="__cudnn$fmhaSoftmax"),
        named("loop_add.3", "fusion", "jit(step)/optimizer/add"),
        named("while.4", "while"),
    ],
    inside=[named("dot.9", "dot", "jit(step)/dot")],
)


def gpu_step(plane, start, *, op="hlo_op"):
    """A step of 100 us: 10 of them exposed all-gather, 20 idle."""
    for name, stream, span in (
        ("fusion.1", "Stream #1(Compute)", (0, 40)),
        ("all-gather-start.1", "Stream #2(NCCL)", (20, 50)),
        ("custom-call.2", "Stream #1(Compute)", (50, 70)),
        ("loop_add.3", "Stream #1(Compute)", (70, 80)),
    ):
        kernel = "ncclDevKernel_AllGather_RING_LL" if "gather" in name else f"kernel_{name}"
        plane.event(stream, kernel, (start + span[0], start + span[1]), hlo_module="jit_step", **{op: name})


def gpu_profile(tmp_path):
    planes = []
    for device in range(2):
        plane = Plane(f"/device:GPU:{device}")
        for number in range(4):
            gpu_step(plane, 100.0 * number)
        planes.append(plane)
    return write(tmp_path / "gpu", GPU_PROGRAM, *planes)


def test_a_gpu_step_is_divided_among_its_parts(tmp_path):
    profile = report_of(gpu_profile(tmp_path)).profile
    assert profile.devices == ("GPU:0", "GPU:1")
    # four steps begin with fusion.1, of which the first is left out; the last ends with its last kernel, after 80 us
    assert profile.steps == 3
    assert profile.samples_s == pytest.approx([100 * US, 100 * US, 80 * US])
    assert profile.step_s == pytest.approx(100 * US)
    parts = {key: (one.exposed_s / US, one.total_s / US) for key, one in profile.parts.items()}
    assert parts["gemm"] == pytest.approx((40, 40))
    assert parts["attention"] == pytest.approx((20, 20))
    assert parts["optimizer"] == pytest.approx((10, 10))
    assert parts["communication"] == pytest.approx((10, 30))  # 20 of 30 us are behind the product
    assert profile.idle_s == pytest.approx(20 * US)
    assert profile.named_ratio == pytest.approx(1.0)
    assert profile.calls == {("all-gather", "groups of 2"): 1}


def test_kernels_without_an_instruction_are_known_by_their_names(tmp_path):
    plane = Plane("/device:GPU:0")
    for number, name in enumerate(
        [
            "sm90_xmma_gemm_bf16",
            "ncclDevKernel_ReduceScatter_Sum",
            "MemcpyD2H",
            "flash_fwd_kernel",
            "loop_add_fusion",
            "mystery",
        ]
    ):
        plane.event("Stream #1", name, (10.0 * number, 10.0 * number + 10))
    profile = report_of(write(tmp_path / "bare", plane)).profile
    seen = {key: one.exposed_s / US for key, one in profile.parts.items()}
    assert seen == pytest.approx({"gemm": 10, "communication": 10, "overhead": 10, "attention": 10, "hbm": 10, "unnamed": 10})
    assert profile.named_ratio == pytest.approx(5 / 6)


def test_a_tpu_step_has_its_runs_from_the_line_of_modules(tmp_path):
    plane = Plane("/device:TPU:0")
    plane.metadata("%fusion.7 = bf16[8] fusion()", hlo_category="convolution fusion", tf_op="jit(step)/jvp(loss)/dot:")
    plane.metadata("%copy.8 = bf16[8] copy()", hlo_category="data formatting", tf_op="jit(step)/x:")
    plane.metadata("%all-reduce.2 = f32[8] all-reduce()", hlo_category="all-reduce", tf_op="")
    plane.metadata("%while.1 = () while()", hlo_category="while", tf_op="")
    for number in range(2):
        start = 50.0 * number
        plane.event("XLA Modules", "jit_step(77)", (start, start + 45))
        plane.event("XLA Ops", "%while.1 = () while()", (start, start + 45))
        plane.event("XLA Ops", "%fusion.7 = bf16[8] fusion()", (start, start + 20))
        plane.event("XLA Ops", "%copy.8 = bf16[8] copy()", (start + 20, start + 25))
        plane.event("Async XLA Ops", "%all-reduce.2 = f32[8] all-reduce()", (start + 15, start + 40))
    profile = report_of(write(tmp_path / "tpu", plane)).profile
    assert (profile.program, profile.steps) == ("jit_step", 2)
    seen = {key: (one.exposed_s / US, one.total_s / US) for key, one in profile.parts.items()}
    assert seen == {"loss": pytest.approx((20, 20)), "hbm": pytest.approx((5, 5)), "communication": pytest.approx((15, 25))}


TRACED = """
import sys, jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    def loss(w):
        with jax.named_scope("attention"):
            h = jax.nn.softmax(x @ w, axis=-1) @ x
        with jax.named_scope("loss"):
            return jnp.sum((h @ w) ** 2)
    g = jax.grad(loss)(w)
    with jax.named_scope("optimizer"):
        return w - 1e-3 * g / jnp.linalg.norm(g)
w, x = jnp.ones((512, 512)), jnp.ones((512, 512))
w = step(w, x).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for _ in range(3):
        w = step(w, x).block_until_ready()
"""


def test_a_real_profile_of_this_host(tmp_path):
    subprocess.run(
        [sys.executable, "-c", TRACED, str(tmp_path / "trace")], check=True, env={"JAX_PLATFORMS": "cpu"}, timeout=120
    )
    report = report_of(tmp_path / "trace", program="jit_step")
    profile = report.profile
    assert {"attention", "loss"} <= profile.parts.keys()
    assert profile.named_ratio >= 0.95
    assert sum(one.exposed_s for one in profile.parts.values()) + profile.idle_s == pytest.approx(profile.step_s, rel=1e-6)
    assert any(one.source.startswith("<string>:") for one, _, _ in profile.operations)


spans = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 5), st.integers(0, 3)), min_size=1, max_size=30)


@given(spans)
def test_the_parts_and_idle_time_sum_to_the_window(events):
    times = np.array([(start, start + length) for start, length, _ in events])
    busy = busy_time(times, np.array([kind for _, _, kind in events]), ranks=(0, 0, 1, 2), window=(1.0, 9.0))
    assert busy.taken_s.sum() + busy.idle_s == pytest.approx(8.0)
    assert (busy.taken_s <= busy.total_s + 1e-9).all()
    assert (busy.taken_s >= -1e-12).all()


def test_a_collective_of_a_compact_group_list(tmp_path):
    iota = {"iota": {"num_replica_groups": 2, "num_devices_per_group": 2, "reshape_dims": [2, 2], "transpose_perm": [1, 0]}}
    program = hlo([named("all-reduce.1", "all-reduce", collective_device_list=iota)])
    plane = Plane("/device:GPU:0")
    plane.event("Stream #1", "ncclKernel", (0, 5), hlo_module="jit_step", hlo_op="all-reduce.1")
    (operation, _, _), *_ = report_of(write(tmp_path / "iota", program, plane)).profile.operations
    assert operation.groups == ((0, 2), (1, 3))


def test_the_newest_profile_of_a_folder_is_read(tmp_path):
    folder = gpu_profile(tmp_path)
    older = folder / "plugins/profile/2025_01_01_00_00_00"
    older.mkdir()
    (older / "host.xplane.pb").write_bytes(b"")
    assert all("2026" in str(path) for path in report_of(folder).files)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xff\xff", "no profile of jax.profiler"), (b"", "no operation of a device")],
)
def test_a_file_that_is_no_profile(tmp_path, content, words):
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=words):
        report_of(path)


def test_a_folder_without_a_profile_and_a_program_that_is_not_there(tmp_path):
    with pytest.raises(BadInputError, match=r"no \*\.xplane\.pb"):
        report_of(tmp_path)
    with pytest.raises(BadInputError, match=r"--program jit_other: not in .*; it has jit_step"):
        report_of(gpu_profile(tmp_path), program="jit_other")


def test_steps_follow_each_other_without_gaps(tmp_path):
    """A device's idle time between two steps is part of the first."""
    plane = Plane("/device:GPU:0")
    for number in range(4):
        gpu_step(plane, 150.0 * number)
    samples = report_of(write(tmp_path / "gaps", GPU_PROGRAM, plane)).profile.samples_s
    assert samples == pytest.approx([150 * US, 150 * US, 80 * US])
