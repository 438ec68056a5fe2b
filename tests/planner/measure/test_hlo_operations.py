"""Operations of an executable's text: work of products, traffic of fusions, messages, loops."""

import pytest

from planner.measure.hlo.executable import CollectiveWalk
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.operations import read_execution
from planner.measure.hlo.text import Computation, parse_module
from planner.measure.hlo.work import product_flop

MESH = MeshView(("data", "model"), (2, 4))
TEXT = """HloModule jit_step, is_scheduled=true, num_partitions=8

%fused (p0: bf16[4,64,128], p1: s32[], p2: bf16[1,64,128]) -> bf16[4,64,128] {
  %p0 = bf16[4,64,128]{2,1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %p2 = bf16[1,64,128]{2,1,0} parameter(2)
  %zero = s32[] constant(0)
  ROOT %dus = bf16[4,64,128]{2,1,0} dynamic-update-slice(%p0, %p2, %p1, %zero, %zero)
}

%reading (q0: bf16[4,64,128], q1: s32[]) -> bf16[1,64,128] {
  %q0 = bf16[4,64,128]{2,1,0} parameter(0)
  %q1 = s32[] parameter(1)
  %none = s32[] constant(0)
  ROOT %ds = bf16[1,64,128]{2,1,0} dynamic-slice(%q0, %q1, %none, %none), dynamic_slice_sizes={1,64,128}
}

%gemm (a: bf16[32,64], b: bf16[64,16]) -> bf16[32,16] {
  %a = bf16[32,64]{1,0} parameter(0)
  %b = bf16[64,16]{1,0} parameter(1)
  ROOT %dot = bf16[32,16]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (s: (s32[], bf16[4,64,128])) -> (s32[], bf16[4,64,128]) {
  %s = (s32[], bf16[4,64,128]{2,1,0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %stack = bf16[4,64,128]{2,1,0} get-tuple-element(%s), index=1
  %piece = bf16[1,64,128]{2,1,0} fusion(%stack, %i), kind=kLoop, calls=%reading
  %ar = bf16[1,64,128]{2,1,0} all-reduce-start(%piece), REPLICAS
  %more = bf16[1,64,128]{2,1,0} copy(%piece)
  %sum = bf16[1,64,128]{2,1,0} all-reduce-done(%ar)
  %kept = bf16[4,64,128]{2,1,0} fusion(%stack, %i, %sum), kind=kLoop, calls=%fused
  ROOT %next = (s32[], bf16[4,64,128]{2,1,0}) tuple(%i, %kept)
}

%condition (t: (s32[], bf16[4,64,128])) -> pred[] {
  %t = (s32[], bf16[4,64,128]{2,1,0}) parameter(0)
  ROOT %go = pred[] constant(true)
}

ENTRY %main (x: bf16[32,64], y: bf16[64,16], z: (s32[], bf16[4,64,128])) -> bf16[32,16] {
  %x = bf16[32,64]{1,0} parameter(0)
  %y = bf16[64,16]{1,0} parameter(1)
  %z = (s32[], bf16[4,64,128]{2,1,0}) parameter(2)
  %loop = (s32[], bf16[4,64,128]{2,1,0}) while(%z), condition=%condition, body=%body, TRIPS
  ROOT %out = bf16[32,16]{1,0} fusion(%x, %y), kind=kCustom, calls=%gemm
}
"""
TEXT = TEXT.replace("REPLICAS", "replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true, channel_id=1")
TEXT = TEXT.replace("TRIPS", 'backend_config={"known_trip_count":{"n":"4"}}')


def read(text=TEXT, mesh=MESH):
    module = parse_module(text)
    return read_execution(module, mesh=mesh, walk=CollectiveWalk(module, mesh, "gpu"))


def test_operations_are_read_in_the_order_of_the_schedule():
    loop, product = read().items
    assert (loop.what, loop.trips) == ("loop", 4)
    assert [item.what for item in loop.body] == ["kernel", "message", "kernel", "done", "kernel"]
    assert (product.kind, product.flop, product.dtype) == ("product", 2.0 * 32 * 64 * 16, "bf16")


def test_slices_count_in_place_of_the_stack():
    piece = 64 * 128 * 2
    loop, _ = read().items
    reading, _, copy, _, writing = loop.body
    assert reading.bytes == 2 * piece + 4  # the slice read and written, and the index
    assert copy.bytes == 2 * piece
    assert writing.bytes == 2 * piece + 4  # the update read and written, and the index


def test_messages_have_the_place_of_their_groups():
    message = next(item for item in read().items[0].body if item.what == "message")
    assert (message.op, message.axis, message.members, message.stride) == ("all-reduce", "data", 2, 4)
    assert (message.inner, message.crosses) == (2, 1)
    across = next(
        item for item in read(mesh=MeshView(("data", "model"), (2, 4), segment=4)).items[0].body if item.what == "message"
    )
    assert (across.inner, across.crosses) == (1, 2)


def product(line, *shapes):
    text = "HloModule m\n\nENTRY %e (p: f32[]) -> f32[] {\n"
    text += "".join(f"  %a{i} = {shape} parameter({i})\n" for i, shape in enumerate(shapes))
    place: Computation = parse_module(f"{text}  ROOT %r = {line}\n}}\n").computations["e"]
    return product_flop(place, place.instructions["r"])


@pytest.mark.parametrize(
    ("line", "shapes", "flop"),
    [
        ("f32[8,32,16] dot(%a0, %a1), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}", ("bf16[8,32,64]", "bf16[8,64,16]"), 2 * 8 * 32 * 64 * 16),  # noqa: E501
        ('(bf16[32,16], s8[1024]) custom-call(%a0, %a1), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}', ("bf16[32,64]", "bf16[64,16]"), 2 * 32 * 64 * 16),  # noqa: E501
        ("bf16[32,16] convolution(%a0, %a1), dim_labels=bf_io->bf", ("bf16[32,64]", "bf16[64,16]"), 2 * 32 * 64 * 16),
        # a batched product as libtpu writes it: of the batch as a spatial dim, each output place meets one kernel place
        ("bf16[8,32,16] convolution(%a0, %a1), window={size=8 stride=7 pad=0_0 lhs_dilate=8}, dim_labels=0bf_0io->0bf", ("bf16[8,32,64]", "bf16[8,64,16]"), 2 * 8 * 32 * 64 * 16),  # noqa: E501
    ],
)  # fmt: skip
def test_flop_of_products(line, shapes, flop):
    assert product(line, *shapes)[0] == flop


def test_flop_of_a_sum_is_no_product():
    assert product("bf16[8] add(%a0, %a1)", "bf16[8]", "bf16[8]") is None
