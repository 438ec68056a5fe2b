"""--compile: a compiler that agrees, one that needs less or more, one that fails; a stand-in for the compiler."""

import re
from io import StringIO

import pytest
from rich.console import Console

from lcplan.evidence.measurement import Compiled
from planner.report.terminal.whatif import whatif_view
from planner.what_if.confirm import compiles, confirm
from planner.what_if.question import what_if
from planner.what_if.vary import parse_vary

BACKENDS = ("nccl",)


class Compiler:
    """Says that a strategy takes ``ratio`` of what the laws say, and ``extra`` bytes; counts what it was asked."""

    def __init__(self, ratio=1.0, extra=0, error=None):
        self.ratio, self.extra, self.error, self.asked = ratio, extra, error, []

    def __call__(self, request, candidate):
        self.asked.append((request.workload.seq_len, candidate.strategy))
        total = None if self.error else int(candidate.estimate["memory_bytes"]["total"] * self.ratio) + self.extra
        compiled = Compiled(
            rung="compiled:target",
            target="h100",
            jax="0.10.1",
            finished_at="2026-01-01T00:00:00Z",
            compile_s=1.0,
            total_bytes=total,
            error=self.error,
        )
        return candidate.with_compiled(compiled, request.budget_bytes)


@pytest.fixture
def asked(ask):
    request = ask("llama3-8b", "dgx-h100", seq=128, batch=1)
    return what_if(request, "max-seq", backends=BACKENDS)


def test_a_compiler_that_agrees_confirms_with_two_compiles(asked):
    compiler = Compiler()
    found = confirm(asked, compiler)
    assert found.answer.confirmed is True
    assert found.answer.compiled is None
    assert len(compiler.asked) == compiles(asked) == 2


@pytest.mark.parametrize(("ratio", "extra"), [(0.95, 0), (0.8, 2**30), (1.05, 0), (1.0, 3 * 2**30)])
def test_another_boundary_is_found_and_is_exact(asked, ratio, extra):
    compiler = Compiler(ratio, extra)
    answer = confirm(asked, compiler).answer
    assert answer.confirmed is False
    refined = answer.compiled
    assert refined.exact
    assert (refined.value > answer.value) is (ratio < 1)
    assert refined.candidate.best.fits
    assert refined.candidate.compiled.rung == "compiled:target"
    assert refined.compiles <= 9
    document = confirm(asked, compiler).to_json()["answer"]
    assert document["confirmed"] is False
    assert document["compiled_boundary"]["seq_len"] == document["seq_len"] == refined.value
    assert document["modelled_seq_len"] == answer.value
    assert document["candidate"]["best"]["fits"] is True
    console = Console(width=100, file=StringIO(), color_system=None)
    console.print(whatif_view(confirm(asked, compiler)))
    assert re.search(r"max-seq: .*tokens, as compiled; .*tokens, modelled", console.file.getvalue())


def test_a_failing_compiler_confirms_nothing(asked):
    answer = confirm(asked, Compiler(error="out of memory")).answer
    assert answer.confirmed is None
    assert answer.compiled is None


def test_points_are_compiled_too(ask):
    result = what_if(
        ask("llama3-8b", "dgx-h100", batch=8), "sweep", backends=BACKENDS, varied=parse_vary(("seq=32k,64k", "hbm=40GiB,80GiB"))
    )
    compiler = Compiler()
    found = confirm(result, compiler)
    assert len(compiler.asked) == compiles(result) == 4
    assert all(point.candidate.compiled is not None for point in found.points)
    boundaries = what_if(
        ask("llama3-8b", "dgx-h100", batch=1), "max-seq", backends=BACKENDS, varied=parse_vary(("hbm=40GiB,80GiB",))
    )
    assert all(point.candidate.compiled is not None for point in confirm(boundaries, compiler).points)


def test_fewer_devices_fit_where_the_compiler_needs_less(ask):
    request = ask("llama3-8b", "dgx-h100", seq=131072, batch=8)
    asked = what_if(request, "min-devices", backends=BACKENDS)
    need = asked.answer.next.miss.estimate
    budget = int((need["memory_bytes"]["total"] + need["allowance_bytes"]) / 1.02)
    tight = request.model_copy(update={"budget_bytes": budget})
    modelled = what_if(tight, "min-devices", backends=BACKENDS)
    answer = confirm(modelled, Compiler(0.95)).answer
    assert answer.compiled.value < modelled.answer.value
    assert answer.answered == answer.compiled.value
    assert answer.best.best.fits
    assert answer.best.strategy.devices == answer.compiled.value


def test_nothing_fits_by_the_cost_model_and_something_as_compiled(ask):
    only = {"mesh": "context=8", "remat": ("full",), "microbatches": (1,)}
    tiny = ask("llama3-8b", "dgx-h100", seq=128, batch=1, budget_bytes=2**30, **only)
    need = what_if(tiny, "max-seq", backends=BACKENDS).answer.next.miss.estimate
    budget = int((need["memory_bytes"]["total"] + need["allowance_bytes"]) / 1.01)
    request = tiny.model_copy(update={"budget_bytes": budget})
    asked = what_if(request, "max-seq", backends=BACKENDS)
    assert asked.answer.value is None
    assert not confirm(asked, Compiler()).found
    found = confirm(asked, Compiler(0.97))
    assert found.found
    assert found.answer.best.best.fits
    console = Console(width=100, file=StringIO(), color_system=None)
    console.print(whatif_view(found))
    assert "as compiled; nothing fits by the cost model" in console.file.getvalue()
