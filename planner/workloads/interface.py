"""PlannedWorkload: the questions that every kind of workload answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from cost_models.estimate import EstimateTable
from cost_models.inputs.layout import Floats
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.strategy import Mesh, Strategy
from planner.measure.workers.job import CompileJob
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.rules import Rule
from planner.space.analysis import Space
from planner.space.shapes import Ints

Table = TypeVar("Table", bound=StrategyTable)


class PlannedWorkload(ABC, Generic[Table]):
    """One kind of workload: its strategies, their rules and prices, and the programs that are compiled and timed.

    Each kind has one module with one instance, and one line in ``planner.workloads.registry``. No other module asks for the
    kind of a workload. The facts of its noun (label, unit, options) are in ``lcplan.spec``.
    """

    mesh_rules: ClassVar[tuple[Rule, ...]]
    """Rules that read the mesh only, in the order in which a rejected mesh is counted."""
    rules: ClassVar[tuple[Rule, ...]]
    """Every rule that one strategy must keep."""

    refused_questions: ClassVar[Mapping[str, str]] = {}
    """What-if questions that the kind does not answer, each with the reason and an alternative."""
    foreign_changes: ClassVar[frozenset[str]] = frozenset()
    """Kinds of change (``planner.what_if.changes``) that cannot help it."""
    accumulates: ClassVar[bool] = True
    """Whether gradient accumulation makes larger batches fit."""
    not_tuned: ClassVar[str | None] = None
    """Why ``--tune`` does not take it; None where it does."""
    not_sliced: ClassVar[str | None] = None
    """Why one rank of it cannot be timed on one device; None where it can."""

    @abstractmethod
    def points(
        self, request: SearchRequest, backends: tuple[str, ...], *, most_devices: int | None = None, least_devices: int = 1
    ) -> Table:
        """Every strategy that breaks no rule, of ``least_devices`` to ``most_devices`` devices."""

    @abstractmethod
    def space(self, request: SearchRequest, backends: tuple[str, ...]) -> Space:
        """The same strategies, and the strategies that a rule rejects."""

    @abstractmethod
    def table_of(self, strategies: Sequence[Strategy]) -> Table:
        """Strategies as columns."""

    @abstractmethod
    def price(self, setting: Setting, table: Table) -> EstimateTable:
        """The estimate of every strategy of ``table``."""

    @abstractmethod
    def need_bytes(self, setting: Setting, table: Table) -> Floats:
        """Memory that each strategy takes from the budget [bytes per device], shape ``[n]``; infinite: no budget helps."""

    @abstractmethod
    def need_on_meshes(self, setting: Setting, meshes: Ints, *, like: Strategy) -> tuple[StrategyTable, Floats]:
        """The strategy ``like`` on each of other meshes, and its need there [bytes per device]."""

    @abstractmethod
    def resolve(self, request: SearchRequest, mesh: Mesh, *, backends: tuple[str, ...]) -> Strategy:
        """The one strategy on ``mesh`` that the filters name; open knobs get their defaults.

        Raises
        ------
        BadInputError
            Several values for one knob, or broken rules (all of them).
        """

    @abstractmethod
    def batches(self, ask: Ask) -> Iterator[tuple[int, StrategyTable]]:
        """Groups of strategies by batch unit: their batches are multiples of that number of sequences."""

    @abstractmethod
    def batch_unit(self, strategy: Strategy) -> int:
        """Sequences by which a batch of ``strategy`` grows."""

    @abstractmethod
    def programs(self, request: SearchRequest, strategy: Strategy) -> tuple[CompileJob, ...]:
        """The programs of one strategy, which run one after the other; each is compiled and timed."""

    def least_seconds(self, setting: Setting, devices: int) -> float:
        """A bound on the step of every strategy on ``devices`` devices or fewer [s]; 0: no bound is known."""
        return 0.0
