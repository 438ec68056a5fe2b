"""Trip counts: XLA's annotation, else read from condition, start and step."""

from __future__ import annotations

import pytest

from planner.measure.hlo.loops import trip_count
from planner.measure.hlo.text import parse_module

TEXT = """HloModule jit_f, num_partitions=4

%step (i: s32[]) -> s32[] {{
  %i = s32[] parameter(0)
  %by = s32[] constant({by})
  ROOT %next = s32[] {move}(%i, %by)
}}

%body (s: (s32[], s32[])) -> (s32[], s32[]) {{
  %s = (s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] get-tuple-element(%s), index=1
  %c = s32[] copy(%i)
  %j = s32[] fusion(%c), kind=kLoop, calls=%step
  ROOT %t = (s32[], s32[]) tuple(%j, %n)
}}

%test (a: s32[], b: s32[]) -> pred[] {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %less = pred[] compare({operands}), direction={direction}
}}

%condition (s: (s32[], s32[])) -> pred[] {{
  %s = (s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %limit = s32[] {limit}
  ROOT %r = pred[] fusion(%i, %limit), kind=kLoop, calls=%test
}}

ENTRY %main (p: s32[]) -> s32[] {{
  %p = s32[] parameter(0)
  %start = s32[] {start}
  %bound = s32[] constant(9)
  %state = (s32[], s32[]) tuple(%start, %bound)
  %w = (s32[], s32[]) while(%state), condition=%condition, body=%body{known}
  ROOT %o = s32[] get-tuple-element(%w), index=0
}}
"""
PLAIN = {
    "by": "1",
    "move": "add",
    "operands": "%a, %b",
    "direction": "LT",
    "limit": "constant(6)",
    "start": "constant(0)",
    "known": "",
}


def trips(**changes: str) -> int | None:
    module = parse_module(TEXT.format(**PLAIN | changes))
    main = module.computations["main"]
    return trip_count(module, caller=main, loop=main.instructions["w"])


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 6),
        ({"start": "constant(1)"}, 5),  # peeled: XLA took the first trip out
        ({"by": "2"}, 3),  # double-buffered: two trips in one body
        ({"by": "4"}, 2),  # 0, 4: the last is short
        ({"direction": "LE"}, 7),
        ({"operands": "%b, %a", "direction": "GT"}, 6),  # 6 > i
        ({"start": "constant(5)", "by": "1", "move": "subtract", "direction": "GT", "limit": "constant(0)"}, 5),
        ({"start": "constant(5)", "by": "-1", "direction": "GE", "limit": "constant(0)"}, 6),
        ({"direction": "NE"}, 6),
        ({"limit": "get-tuple-element(%s), index=1"}, 9),  # the limit travels in the state
        ({"start": "constant(7)"}, 0),
        ({"known": ', backend_config={"known_trip_count":{"n":"11"}}'}, 11),
    ],
)
def test_trip_counts(changes: dict[str, str], count: int) -> None:
    assert trips(**changes) == count


@pytest.mark.parametrize(
    "changes",
    [
        {"start": "copy(%p)"},  # starts at an argument of the program
        {"move": "multiply"},
        {"by": "0"},
        {"direction": "EQ"},
        {"by": "-1"},  # counts away from its limit
        {"limit": "constant({...})"},
    ],
)
def test_what_the_text_does_not_tell(changes: dict[str, str]) -> None:
    assert trips(**changes) is None
