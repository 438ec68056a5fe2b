"""Reading XLA's text: names, shapes, opcodes, operands, attributes."""

from __future__ import annotations

import pytest

from planner.measure.hlo.text import parse_module, shape_bytes

TEXT = """HloModule jit_f, is_scheduled=true, replica_count=2, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main.1_spmd (x: (f32[8], s32[])) -> (f32[8], /*index=1*/s32[]) {
  %x = (f32[8]{0:T(128)}, s32[]) parameter(0), metadata={op_name="f(x) = (y)"}
  %y = f32[8]{0} get-tuple-element(%x), index=0
  %z = f32[8]{0} custom-call(%y, /*index=1*/%y), custom_call_target="odd(name", called_computations={%add, %add}
  ROOT %out = (f32[8]{0}, s32[]) tuple(%z, %x)
}
"""


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("f32[]", 4),
        ("bf16[2048,512]{1,0:T(8,128)(2,1)S(1)}", 2048 * 512 * 2),
        ("(f32[8]{0}, (s8[3], pred[2]))", 32 + 3 + 2),
        ("s4[3]", 2),  # 12 bits round up to two bytes
        ("f8e4m3fn[16]", 16),
        ("token[]", 0),
        ("f32[<=8,2]", 64),  # a bounded dynamic dim counts with its bound
        ("c64[2]", 16),
    ],
)
def test_shape_bytes(shape: str, size: int) -> None:
    assert shape_bytes(shape) == size


def test_module_has_its_computations_entry_and_devices() -> None:
    module = parse_module(TEXT)
    assert list(module.computations) == ["add", "main.1_spmd"]
    assert module.entry == "main.1_spmd"
    assert module.devices == 8
    assert module.computations["add"].root == "sum"


def test_instructions_are_read_through_quotes_and_comments() -> None:
    call = parse_module(TEXT).computations["main.1_spmd"].instructions["z"]
    assert (call.shape, call.opcode, call.operands) == ("f32[8]{0}", "custom-call", ("y", "y"))
    assert call.called("called_computations") == ("add", "add")
    assert call.attribute("index") is None


def test_names_without_percent_signs() -> None:
    text = "ENTRY main (p: f32[4]) -> f32[4] {\n  p = f32[4]{0} parameter(0)\n  ROOT q = f32[4]{0} add(f32[4]{0} p, p)\n}\n"
    module = parse_module(text)
    assert module.computations["main"].instructions["q"].operands == ("p", "p")


def test_a_text_without_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="no ENTRY"):
        parse_module("HloModule nothing\n")
