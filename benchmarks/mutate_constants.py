"""Change one number of cost_models at a time and count the changes that its unit tests notice.

``python benchmarks/mutate_constants.py [--sample N] [--jobs N] [--module PART]``: every numeric literal in the code of
cost_models (its YAML and JSON data are not code) is changed on its own, floats by a tenth and integers by one. The unit tests
of tests/cost_models that call the function run until one fails. The golden answers and docs/accuracy.md are not among them.
Each change that no test notices is printed; the exit code is 1 where fewer than 90 % are noticed.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cost_models"
BAR = 0.9
LIMIT_S = 120
"""A mutant whose tests take longer counts as not noticed."""
RUNS_JAX = "kernel_visits"
"""Part of the names of tests that run a jax program, which no forked process can."""
NOT_SEEN = {
    "CHUNK_ROWS": "rows that are priced at a time change no result",
    "FEWEST_ROWS": "shorter tables are placed row by row, with equal results",
}
"""Module constants that no result depends on, with the reason."""
SMALLEST = 1e-20
"""Smaller literals only keep a quotient away from 0 / 0."""


@dataclass(frozen=True)
class Mutant:
    """One literal of one module, by its number in the order of ``literals``; ``function`` is the first line of its function."""

    file: Path
    index: int
    line: int
    value: float
    function: int | None

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return ".".join(self.file.relative_to(ROOT).with_suffix("").parts)

    @property
    def changed(self) -> float:
        """The value that stands in for the literal's."""
        if isinstance(self.value, int):
            return self.value + 1
        return self.value * 1.1 if self.value else 1.0

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.value} -> {self.changed:.6g}"

    def code(self) -> CodeType:
        """The module's code with the changed literal."""
        tree = ast.parse(self.file.read_text())
        node, _ = list(literals(tree))[self.index]
        node.value = self.changed
        return compile(tree, str(self.file), "exec")


def literals(tree: ast.Module) -> Iterator[tuple[ast.Constant, int | None]]:
    """Numeric literals that carry a quantity, each with the first line of the function around it.

    Indices, array axes, bounds of a field's validation and the constants of ``NOT_SEEN`` are left out.
    """

    def visit(node: ast.AST, function: int | None) -> Iterator[tuple[ast.Constant, int | None]]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and not 0 < abs(node.value) < SMALLEST:
            yield node, function
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"Field", "lru_cache"}:
            return
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) in NOT_SEEN for target in node.targets):
            return
        if isinstance(node, ast.FunctionDef) and function is None:
            function = node.lineno
        for name, child in ast.iter_fields(node):
            if (isinstance(node, ast.Subscript) and name == "slice") or (
                isinstance(node, ast.AnnAssign) and name == "annotation"
            ):
                continue
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, ast.AST) and not (isinstance(each, ast.keyword) and each.arg == "axis"):
                    yield from visit(each, function)

    yield from visit(tree, None)


def mutants() -> list[Mutant]:
    """Every mutant of every module of cost_models."""
    return [
        Mutant(file, index, node.lineno, node.value, function)  # type: ignore[arg-type]  # a number, as literals yields
        for file in sorted(PACKAGE.rglob("*.py"))
        for index, (node, function) in enumerate(literals(ast.parse(file.read_text())))
    ]


def transplant(mutant: Mutant) -> None:
    """Give the imported module the mutant's code and values, wherever its names have been imported."""
    module = importlib.import_module(mutant.module)
    fresh = ModuleType(mutant.module)
    fresh.__file__ = str(mutant.file)
    sys.modules[mutant.module] = fresh  # dataclasses look their module up
    exec(mutant.code(), fresh.__dict__)  # noqa: S102  the package's own source
    sys.modules[mutant.module] = module
    for name, new in vars(fresh).items():
        _replace(module, name, new=new)
    clear_caches()


def _replace(module: ModuleType, name: str, *, new: Any) -> None:
    old = vars(module).get(name)
    if name.startswith("__") or old is None:
        return
    own = getattr(new, "__module__", None) == module.__name__
    if isinstance(new, type):
        if own:
            for key, value in vars(new).items():
                _recode(vars(old).get(key), value)
    elif not _recode(old, new):
        for other in list(sys.modules.values()):
            if other is not None and getattr(other, "__dict__", {}).get(name) is old:
                setattr(other, name, new)


def _recode(old: Any, new: Any) -> bool:
    """Copy code and defaults from ``new`` to ``old`` where both are functions or wrap them; whether they do."""
    pairs = {property: "fget", functools.cached_property: "func", staticmethod: "__func__", classmethod: "__func__"}
    for kind, attribute in pairs.items():
        if isinstance(new, kind):
            return _recode(getattr(old, attribute, None), getattr(new, attribute))
    if isinstance(new, functools._lru_cache_wrapper):
        return _recode(old.__wrapped__, new.__wrapped__)
    if not isinstance(new, FunctionType):
        return False
    if isinstance(old, FunctionType) and len(old.__code__.co_freevars) == len(new.__code__.co_freevars):
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return True


def clear_caches() -> None:
    """Empty the caches of cost_models' functions, which hold values of the code as it was."""
    for name, module in list(sys.modules.items()):
        if name.startswith("cost_models"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


class Mutation:
    """A pytest plugin whose test loop first notes the functions that each test calls, then runs the mutants' tests."""

    def __init__(self, chosen: Sequence[Mutant], jobs: int) -> None:
        self.chosen, self.jobs = chosen, jobs
        self.failed = False
        self.survivors: list[Mutant] = []
        self._calls: dict[pytest.Item, set[tuple[str, int]]] = {}
        self._seconds: dict[pytest.Item, float] = {}

    def pytest_sessionstart(self) -> None:
        """Properties are tried on a few examples, after the suite's own conftest has chosen more."""
        hypothesis.settings.register_profile("mutants", max_examples=10, derandomize=True, database=None, deadline=None)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a failure."""
        self.failed = self.failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the tests as they are, then every mutant in a process of its own."""
        for item in session.items:
            self._observe(item)
        if self.failed:
            raise pytest.UsageError("the tests fail without a mutant")
        running: dict[int, Mutant] = {}
        for number, mutant in enumerate(self.chosen):
            if len(running) >= self.jobs:
                self._collect(running)
            running[self._start(mutant)] = mutant
            if number % 50 == 0:
                print(f"{number} of {len(self.chosen)}, {len(self.survivors)} not noticed", file=sys.stderr, flush=True)
        while running:
            self._collect(running)
        return True

    def _observe(self, item: pytest.Item) -> None:
        seen: set[tuple[str, int]] = set()

        def trace(frame: FrameType, event: str, argument: object) -> None:
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

        clear_caches()
        start = time.perf_counter()
        sys.settrace(trace)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            sys.settrace(None)
        self._calls[item], self._seconds[item] = seen, time.perf_counter() - start

    def _tests(self, mutant: Mutant) -> list[pytest.Item]:
        """Tests that can notice, those that call into the module first, the fastest of them first."""
        name = str(mutant.file)

        def near(item: pytest.Item) -> bool:
            return any(file == name for file, _ in self._calls[item])

        found = list(self._calls)
        if mutant.function is not None:
            lines = {mutant.function, *_decorated(mutant)}
            found = [item for item in found if any((name, line) in self._calls[item] for line in lines)]
        return sorted(found, key=lambda item: (not near(item), self._seconds[item]))

    def _start(self, mutant: Mutant) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jax, where a test has imported it, objects to forks
            process = os.fork()
        if process:
            return process
        signal.alarm(LIMIT_S)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            transplant(mutant)
            for item in self._tests(mutant):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self.failed:
                    os._exit(1)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def _collect(self, running: dict[int, Mutant]) -> None:
        process, status = os.wait()
        mutant = running.pop(process)
        if status == 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM):
            self.survivors.append(mutant)
            print(mutant, flush=True)


def _decorated(mutant: Mutant) -> Iterator[int]:
    """First lines of the code of the function and of those inside it: a decorated one begins at its decorator."""
    for node in ast.walk(ast.parse(mutant.file.read_text())):
        if isinstance(node, ast.FunctionDef) and node.lineno == mutant.function:
            yield from (decorator.lineno for decorator in node.decorator_list)


def run(chosen: Sequence[Mutant], jobs: int) -> list[Mutant]:
    """The mutants that no test notices."""
    plugin = Mutation(chosen, jobs)
    options = [
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-m",
        "not slow",
        "-k",
        f"not {RUNS_JAX}",
        "--rootdir",
        str(ROOT),
    ]
    code = pytest.main([*options, str(ROOT / "tests" / "cost_models")], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {code!r}")
    return plugin.survivors


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen mutants and print the share that the tests notice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, help="as many mutants, drawn at random with a fixed seed; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--module", default="", help="only files whose path contains this")
    asked = parser.parse_args(arguments)
    chosen = [mutant for mutant in mutants() if asked.module in str(mutant.file)]
    if asked.sample is not None and asked.sample < len(chosen):
        chosen = random.Random(0).sample(chosen, asked.sample)  # noqa: S311  a sample, no secret
    noticed = len(chosen) - len(run(chosen, asked.jobs))
    print(f"{noticed} of {len(chosen)} changes noticed: {noticed / len(chosen):.1%}")
    return 0 if noticed >= BAR * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
