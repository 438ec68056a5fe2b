"""``lcplan inspect part``: one part compiled in several ways, priced, and timed on this host."""

import json

import pytest

from lcplan.catalog import hardware
from lcplan.parts import Part
from lcplan.strategy import Mesh, Strategy
from planner.cli.main import run
from planner.inspect.part import Bench, Variant, parse_flags
from planner.measure.targets.toolchain import Toolchain, probe

ALL_REDUCED = ["--shape", "B=6,D=8,F=8", "--mesh", "tensor=4", "--sharding", "B D/tensor, D/tensor F -> B F"]
MATMUL = ["inspect", "part", "matmul", "--hw", "cpu-host"]


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return probe(None)


def document(capsys, *arguments):
    assert run([*arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_three_ways_of_a_product_side_by_side(capsys):
    found = document(
        capsys, *MATMUL, "--shape", "B=16,D=32,F=64", "--mesh", "data=2,tensor=4", "--sharding-mode", "auto,manual",
        "--collective-matmul", "off,one-way", "--dtype", "fp32",
    )  # fmt: skip
    ways = {(one["sharding_mode"], one["collective_matmul"]): one for one in found["variants"]}
    assert list(ways) == [("auto", "off"), ("manual", "off"), ("manual", "one-way")]
    # A[8 8] of each device in fp32, gathered to [8 32]; one hop moves [8 8], three times
    gathered, moved = (ways["manual", way]["compiled"]["collectives"] for way in ("off", "one-way"))
    assert [(use["op"], use["axis"], use["bytes"], use["calls"]) for use in gathered] == [("all-gather", "tensor", 1024, 1)]
    assert [(use["op"], use["axis"], use["bytes"], use["calls"]) for use in moved] == [("collective-permute", "tensor", 256, 3)]
    assert gathered[0]["level"] == hardware("cpu-host").domain_link.name
    # A[8 8], W[32 16], Out[8 16]
    assert ways["manual", "off"]["compiled"]["argument_bytes"] == 4 * (64 + 512)
    assert ways["manual", "off"]["modelled"]["step_s"] > 0
    assert ways["auto", "off"]["modelled"] is None
    assert all(one["timed"]["step_s"] > 0 for one in found["variants"])


def test_the_table_shows_the_same(capsys):
    sizes = ["--shape", "B=16,D=8", "--mesh", "tensor=4", "--op", "all-reduce"]
    assert run(["inspect", "part", "collective", "--hw", "cpu-host", *sizes]) == 0
    said = capsys.readouterr().out
    assert "collective B=16 D=8 bf16; all-reduce over tensor" in said
    assert "all-reduce tensor (host-memory)" in said
    assert "time t" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "B=16,D=8"], "are not the sizes of part matmul; use B=1024,D=1024,F=1024"),
        (["--shape", "B=16,D=9,F=8", "--mesh", "tensor=4"], "tensor = 4 does not divide D=9; use 1, 3 or 9"),
        (["--shape", "B=16,D=8,F=8", "--mesh", "tensor=4..8"], "a part runs on one mesh; give one size"),
        (["--shape", "B=16,D=8,F=8", "--sharding", "B D"], "are not the arrays of part matmul; use, for example"),
        (["--shape", "B=16,D=8,F=8", "--sharding", "B/model D, D F -> B F"], "unknown axis 'model'"),
        (["--shape", "B=16,D=8,F=8", "--flag", "fast"], "'fast' is no XLA flag with a value; write xla_name=value"),
        (
            ["--shape", "B=16,D=8,F=8", "--mesh", "tensor=4", "--sharding", "B D, D F/tensor -> B F"],
            "tensor splits F of the weight and not of the result; split B or F",
        ),
        (
            [*ALL_REDUCED, "--collective-matmul", "one-way"],
            "tensor=4 does not divide the 6 rows of a device; use off, or 1, 2, 3 or 6",
        ),
        (
            ["--shape", "B=16,D=8,F=8", "--mesh", "tensor=4", "--sharding-mode", "auto", "--collective-matmul", "one-way"],
            "written out in --sharding-mode manual only",
        ),
    ],
)
def test_bad_input_is_named_with_a_way_out(arguments, message, capsys):
    assert run([*MATMUL, *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_flag_that_the_compiler_does_not_know_ends_with_its_words(capsys):
    assert run([*MATMUL, "--shape", "B=8,D=8,F=8", "--flag", "xla_no_such_flag=true"]) == 3
    assert "xla_no_such_flag" in capsys.readouterr().err


def test_flags_are_read_with_their_types():
    assert parse_flags("xla_a=true,--xla_b=3") == (("xla_a", True), ("xla_b", "3"))


@pytest.mark.slow
@pytest.mark.skipif("not __import__('importlib.util').util.find_spec('libtpu')", reason="not installed: libtpu")
def test_an_all_reduced_product_travels_during_its_products_on_a_v5e(toolchain):
    """Two tiles of 2 x 3 hops: only the last gather of three has no product between start and done."""
    mesh = Mesh(data=2, tensor=4)
    sharding = "B/data D/tensor, D/tensor F -> B/data F"
    part = Part.of("matmul", shape="B=2048,D=8192,F=2048", sharding=sharding, mesh=mesh, rest={})
    strategy = Strategy(mesh=mesh, backend="ici", collective_matmul="one-way")
    (found,) = Bench(part, hardware("tpu-v5e-8"), toolchain, strategy).inspected([Variant(strategy)])
    assert found.compiled.error is None
    assert [(use.op, use.axis, use.calls) for use in found.compiled.collectives] == [("collective-permute", "tensor", 12)]
    assert (found.compiled.schedule.asynchronous, found.compiled.schedule.overlapped) == (12, 9)
    assert found.timed is None
