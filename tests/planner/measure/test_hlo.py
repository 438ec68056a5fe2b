"""Collectives of real executables (trimmed, in data/) and of small texts for each single rule.

The ring programs in data/ have 6 layers on a mesh fsdp=2, context=4, tensor=2 with 1024 local rows of 512 bf16: every layer
gathers a weight over fsdp x context and the rows over tensor, goes round a ring of 4 permutes, and scatters the sum.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.measure.hlo.executable import HloFacts, Kind, read_executable
from planner.measure.hlo.groups import MeshView

DATA = Path(__file__).parent / "data"
RING = MeshView(("fsdp", "context", "tensor"), (2, 4, 2))
PAIR = MeshView(("fsdp", "expert"), (2, 4))


def facts(name: str, mesh: MeshView, kind: Kind) -> HloFacts:
    return read_executable((DATA / name).read_text(), mesh=mesh, kind=kind)


def table(read: HloFacts) -> set[tuple[str, str, int, int, str | None]]:
    return {(use.op, use.axis, use.bytes, use.calls, use.backend) for use in read.collectives}


def test_gpu_ring() -> None:
    # forward, recomputed and backward ring: 3 x 6 layers x 4 steps of 2048 x 512 x 2 bytes. XLA combined two of the gathers
    # over tensor in the backward pass into one of twice the bytes, and peeled the first trip off one loop.
    read = facts("gpu_ring.hlo", RING, "gpu")
    assert table(read) == {
        ("collective-permute", "context", 2048 * 512 * 2, 72, "nccl"),
        ("all-gather", "tensor", 2 * 2048 * 512 * 2, 6, "nccl"),
        ("all-gather", "tensor", 2048 * 512 * 2, 6, "nccl"),
        ("reduce-scatter", "tensor", 2048 * 512 * 2, 12, "nccl"),
        ("all-gather", "fsdp+context", 512 * 512 * 2, 12, "nccl"),
        ("reduce-scatter", "fsdp+context", 512 * 512 * 2, 6, "nccl"),
        ("all-reduce", "fsdp+context+tensor", 4, 1, "nccl"),
    }
    assert read.warnings == ()
    assert read.kernels == ("blockwise",)


def test_tpu_ring_counts_an_async_collective_fusion_once() -> None:
    # libtpu annotates no trip counts and writes one gather three times: start, the fusion that overlaps with it, done
    assert table(facts("tpu_async.hlo", RING, "tpu")) == {
        ("collective-permute", "context", 2048 * 512 * 2, 72, "ici"),
        ("all-gather", "tensor", 2048 * 512 * 2, 18, "ici"),
        ("reduce-scatter", "tensor", 2048 * 512 * 2, 12, "ici"),
        ("all-gather", "fsdp+context", 512 * 512 * 2, 12, "ici"),
        ("reduce-scatter", "fsdp+context", 512 * 512 * 2, 6, "ici"),
        ("all-reduce", "fsdp+context+tensor", 4, 1, "ici"),
    }


def test_cpu_ring_moves_fp32() -> None:
    # the host compiler widens bf16 before it communicates: the same calls, twice the bytes
    assert table(facts("cpu_ring.hlo", RING, "cpu")) == {
        ("collective-permute", "context", 2048 * 512 * 4, 72, "host"),
        ("all-gather", "tensor", 2048 * 512 * 4, 18, "host"),
        ("reduce-scatter", "tensor", 2048 * 512 * 4, 12, "host"),
        ("all-gather", "fsdp+context", 512 * 512 * 4, 12, "host"),
        ("reduce-scatter", "fsdp+context", 512 * 512 * 4, 6, "host"),
        ("all-reduce", "fsdp+context+tensor", 4, 1, "host"),
    }


def test_double_buffered_loop() -> None:
    # 7 layers: one peeled, then 3 trips of a body that holds two; one permute and one all-reduce a layer
    read = facts("gpu_double_buffered.hlo", MeshView(("context", "tensor"), (4, 2)), "gpu")
    assert table(read) == {
        ("collective-permute", "context", 1024 * 512 * 2, 7, "nccl"),
        ("all-reduce", "tensor", 1024 * 512 * 2, 7, "nccl"),
    }


@pytest.mark.parametrize(
    ("name", "kind", "backend", "width"),
    [
        ("gpu_all_to_all.hlo", "gpu", "nccl", 2),
        ("tpu_all_to_all.hlo", "tpu", "ici", 2),
        ("cpu_all_to_all.hlo", "cpu", "host", 4),
    ],
)
def test_all_to_all(name: str, kind: Kind, backend: str, width: int) -> None:
    # two of 1024 x 256 each; the host compiler splits the operand into a tuple of four
    read = table(facts(name, PAIR, kind))
    assert ("all-to-all", "expert", 1024 * 256 * width, 2, backend) in read
    ragged = {use for use in read if use[0] == "ragged-all-to-all"}
    assert ragged == (set() if kind == "cpu" else {("ragged-all-to-all", "expert", 1024 * 256 * 2, 1, backend)})


def test_propagated_shardings_use_the_iota_form() -> None:
    assert table(facts("gpu_auto.hlo", PAIR, "gpu")) == {
        ("all-reduce", "expert", 4096 * 512 * 2, 1, "nccl"),
        ("all-reduce", "fsdp", 128 * 512 * 2, 1, "nccl"),
    }


MODULE = """HloModule jit_f, num_partitions=4

{before}
ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  %flag = pred[] constant(true)
{lines}
}}
"""
MESH = MeshView(("data", "tensor"), (2, 2))


def read(lines: str, before: str = "", kind: Kind = "gpu") -> HloFacts:
    return read_executable(MODULE.format(lines=lines, before=before), mesh=MESH, kind=kind)


def one(line: str, *, kind: Kind = "gpu") -> tuple[str, str, int, int, str | None]:
    (found,) = table(read(line, kind=kind))
    return found


def test_nvshmem_and_symmetric_are_read_from_the_executable() -> None:
    permute = "%p = f32[8] collective-permute(%x), channel_id=1, source_target_pairs={{0,2},{2,0}}, backend_config={"
    nvshmem = '"collective_backend_config":{"backend":"NVSHMEM","collectives_mode":"COLLECTIVES_MODE_INVALID"}}'
    symmetric = '"collective_backend_config":{"backend":"DEFAULT","collectives_mode":"COLLECTIVES_SYMMETRIC_MEMORY"}}'
    assert one(f"  {permute}{nvshmem}") == ("collective-permute", "data", 32, 1, "nvshmem")
    assert one(f"  {permute}{symmetric}") == ("collective-permute", "data", 32, 1, "symmetric")


def test_groups_without_global_ids_list_replicas() -> None:
    line = "  %r = f32[8] all-reduce(%x), channel_id=1, replica_groups={{0}}, to_apply=%add"
    assert one(line) == ("all-reduce", "data+tensor", 32, 1, "nccl")


def test_a_group_of_one_is_no_collective() -> None:
    line = "  %r = f32[8] all-reduce(%x), channel_id=1, replica_groups={{0},{1},{2},{3}}, use_global_device_ids=true"
    assert read(line).collectives == ()
    assert read("  %r = f32[8] collective-permute(%x), source_target_pairs={{0,0},{1,1}}").collectives == ()


def test_an_async_wrapper_counts_once() -> None:
    wrapped = """%wrapped (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} all-to-all(%p), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}
}
"""
    lines = """  %s = ((f32[8]), f32[8], s32[]) async-start(%x), calls=%wrapped
  %u = ((f32[8]), f32[8], s32[]) async-update(%s), calls=%wrapped
  ROOT %d = f32[8] async-done(%u), calls=%wrapped"""
    assert table(read(lines, wrapped)) == {("all-to-all", "tensor", 32, 1, "nccl")}


def test_of_a_conditional_the_busiest_branch_counts() -> None:
    branches = """%one (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true
}

%two (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %a = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true
  %b = f32[8]{0} all-reduce(%a), channel_id=2, replica_groups=[2,2]<=[4], use_global_device_ids=true
  ROOT %c = f32[8]{0} all-reduce(%b), channel_id=3, replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true
}
"""
    expected = {("all-reduce", "tensor", 32, 2, "nccl"), ("all-reduce", "data", 32, 1, "nccl")}
    old = "  %r = f32[8] conditional(%flag, %x, %x), true_computation=%one, false_computation=%two"
    new = "  %r = f32[8] conditional(%flag, %x, %x), branch_computations={%one, %two}"
    assert table(read(old, branches)) == table(read(new, branches)) == expected


def test_a_loop_of_unknown_length_is_counted_once_and_said() -> None:
    loop = """%body (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true
}

%until (p: f32[8]) -> pred[] {
  %p = f32[8]{0} parameter(0)
  ROOT %more = pred[] custom-call(%p), custom_call_target="who_knows"
}
"""
    found = read("  %w = f32[8] while(%x), condition=%until, body=%body", loop)
    assert table(found) == {("all-reduce", "tensor", 32, 1, "nccl")}
    assert found.warnings == ("loop w: trip count not in the executable; its collectives are counted once",)


def test_libtpus_all_reduce_scatter_is_a_reduce_scatter_without_its_padding() -> None:
    fused = """%all-reduce-scatter.1.clone (input: f32[8]) -> f32[6] {
  %input = f32[8]{0} parameter(0)
  %zero = f32[] constant(0)
  %pad = f32[12]{0} pad(%input, %zero), padding=0_4
  %all = f32[12]{0} all-reduce(%pad), channel_id=3, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%add
  %id = u32[] partition-id()
  ROOT %mine = f32[6]{0} dynamic-slice(%all, %id), dynamic_slice_sizes={6}
}
"""
    line = "  %f = f32[6] fusion(%x), kind=kCustom, calls=%all-reduce-scatter.1.clone"
    assert table(read(line, fused, kind="tpu")) == {("reduce-scatter", "tensor", 32, 1, "ici")}


def test_a_permute_of_slices_moves_the_slice() -> None:
    lines = """  %o = s32[] constant(0)
  %p = f32[8] collective-permute(%x, %x, %o, %o), channel_id=1, source_target_pairs={{0,1},{1,0}}, slice_sizes={{2}}"""
    assert table(read(lines)) == {("collective-permute", "tensor", 8, 1, "nccl")}


@pytest.mark.parametrize(
    ("line", "kernels"),
    [
        ('%k = f32[8] custom-call(%x), custom_call_target="__cudnn$fmhaSoftmax"', ("cudnn",)),
        ('%splash_mha_fwd.1 = f32[8] custom-call(%x), custom_call_target="tpu_custom_call"', ("splash",)),
        ('%my_kernel = f32[8] custom-call(%x), custom_call_target="tpu_custom_call"', ("blockwise",)),
    ],
)
def test_attention_kernels(line: str, kernels: tuple[str, ...]) -> None:
    assert read(f"  {line}").kernels == kernels
