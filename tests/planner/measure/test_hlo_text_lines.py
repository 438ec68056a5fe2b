"""A Mosaic kernel's attributes span lines in an executable's text; the computation goes on behind them."""

from planner.measure.hlo.text import parse_module

TEXT = """HloModule jit_step, num_partitions=2

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8] get-tuple-element(%p), index=1
  %y = f32[8] custom-call(%x), custom_call_target="tpu_custom_call", backend_config={"custom_call_config": {"body": "TUz",
"xprof_metadata":"{\\"block_q\\": 512}"
}}, metadata={op_name="splash"}
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  ROOT %out = (s32[], f32[8]) tuple(%next, %y)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  ROOT %a = f32[8] parameter(0)
}
"""


def test_instructions_behind_a_kernel_are_read():
    body = parse_module(TEXT).computations["body"]
    assert list(body.instructions) == ["p", "i", "x", "y", "one", "next", "out"]
    assert body.root == "out"
