"""The tuning loop: ask Optuna, price, compile, time, tell. Everything measured goes through the bench, so nothing twice."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lcplan.strategy import Strategy
from lcplan.units import format_bytes, format_seconds
from planner.analyse import setting_of
from planner.bench import Bench
from planner.candidate import Candidate, rank
from planner.request import Stage
from planner.screen import broken_rules
from planner.single import price
from planner.study.location import canonical_url, open_storage
from planner.study.store import talking_to
from planner.tune.budget import Budget
from planner.tune.knobs import parameters_of, suggest
from planner.tune.trial import Outcome, TunedTrial

STUDY = "lcplan-tune"
MESHES = 4
WORTH_COMPILING = 1.15
"""A trial whose modelled step is longer than this many times the best one's model is not compiled: the laws are not off by more
between strategies of one mesh (docs/accuracy.md)."""


@dataclass(frozen=True)
class _Study:
    """Optuna's study with what this project tells it."""

    study: Any

    @property
    def done(self) -> int:
        """Finished trials, those of an interrupted run among them."""
        return sum(trial.state.is_finished() for trial in self.study.get_trials(deepcopy=False))

    def ask(self) -> Any:
        """The next trial. Heartbeats are for workers; a trial that died with its process is simply asked anew."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Heartbeat of storage")
            return self.study.ask()

    def tell(self, trial: Any, tried: TunedTrial) -> None:
        """The outcome as values, or as a pruned trial that teaches nothing of the objectives; the words beside it."""
        from optuna.trial import TrialState

        trial.set_user_attr("history", tried.to_json())
        if tried.candidate is None or tried.outcome not in ("improved", "kept"):
            self.study.tell(trial, state=TrialState.PRUNED)
            return
        best = tried.candidate.best
        self.study.tell(trial, [best.step_s, float(best.memory_bytes), float(tried.candidate.strategy.devices)])

    def history(self) -> list[dict[str, Any]]:
        """What was tried, in order, by this run and those before it."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial.user_attrs["history"] for trial in trials if "history" in trial.user_attrs]


@dataclass(frozen=True)
class Tuned:
    """``candidates`` are the search's and the tuner's, best first; ``history`` is the study's, trial by trial."""

    candidates: tuple[Candidate, ...]
    history: tuple[dict[str, Any], ...]


def tune(bench: Bench, candidates: Sequence[Candidate], budget: Budget, *, stage: Stage, url: str) -> Tuned:
    """Try knobs around the meshes of the best ``candidates`` until the budget is used up.

    What the model ranks best is tried first. A trial is priced, then compiled where it is worth it, then timed where it fits
    and ``stage`` says so.
    """
    fitting = [one for one in rank(list(candidates), bench.request.objective) if one.best.fits]
    if not fitting:
        return Tuned(tuple(candidates), ())
    bases = list({one.strategy.mesh: one.strategy for one in reversed(fitting)}.values())[::-1][:MESHES]
    found = {one.strategy: one for one in candidates}
    with talking_to(url):
        study = _open(canonical_url(url))
        _enqueue(study, fitting, bases, bench)
        for tried in _trials(study, bases, _Trying(bench, stage, found), budget=budget):
            if tried.candidate is not None and tried.outcome in ("improved", "kept"):
                found[tried.candidate.strategy] = tried.candidate
        history = tuple(study.history())
    return Tuned(tuple(rank(list(found.values()), bench.request.objective)), history)


def _open(url: str) -> _Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=8)
    storage = open_storage(url)
    directions = ["minimize"] * 3  # step time, memory, devices
    return _Study(
        optuna.create_study(study_name=STUDY, storage=storage, sampler=sampler, directions=directions, load_if_exists=True)
    )


def _enqueue(study: _Study, fitting: Sequence[Candidate], bases: Sequence[Strategy], bench: Bench) -> None:
    """The search's own best first: their compiles are there already, and the sampler starts from what is known."""
    for candidate in fitting:
        parameters = parameters_of(candidate.strategy, bases, bench.request, jax=bench.toolchain.jax or "0")
        if parameters is not None:
            study.study.enqueue_trial(parameters, skip_if_exists=True)


def _trials(study: _Study, bases: Sequence[Strategy], trying: _Trying, *, budget: Budget) -> Iterator[TunedTrial]:
    begun, bench = time.monotonic(), trying.bench
    while not budget.over(trials=study.done, seconds=time.monotonic() - begun):
        trial = study.ask()
        strategy = suggest(trial.suggest_categorical, bases, bench.request, jax=bench.toolchain.jax or "0")
        tried = trying.attempt(trial.number, strategy)
        study.tell(trial, tried)
        yield tried


@dataclass(frozen=True)
class _Trying:
    """How far each trial goes."""

    bench: Bench
    stage: Stage
    found: dict[Strategy, Candidate]

    def attempt(self, number: int, strategy: Strategy) -> TunedTrial:
        """Rules, price, compile, time: as far as it is worth it."""

        def ends(rung: str, outcome: Outcome, says: str, candidate: Candidate | None = None) -> TunedTrial:
            return TunedTrial(number, strategy.label, rung, outcome, says, candidate)

        broken = broken_rules(setting_of(self.bench.request), strategy)
        if broken:
            return ends("rules", "rejected", broken[0])
        best = self._best()
        candidate = self.found.get(strategy) or price(self.bench.request, strategy)
        modelled, limit = candidate.estimate["step_s"], WORTH_COMPILING * best.estimate["step_s"]
        if not candidate.estimate["fits"]:
            return ends("modelled", "pruned", "does not fit by the model", candidate)
        if modelled > limit:
            return ends("modelled", "pruned", f"{modelled / best.estimate['step_s']:.2f} times the best one's model", candidate)
        candidate = self._measured(candidate)
        top = candidate.best
        if not candidate.usable:
            return ends(top.rung, "failed", self._error(candidate), candidate)
        if not top.fits:
            return ends(top.rung, "pruned", f"{format_bytes(top.memory_bytes)} as compiled do not fit", candidate)
        known = best.best
        change = f"{format_seconds(top.step_s)}, {top.step_s / known.step_s:.3f} times {best.strategy.label}"
        better = top.step_s < known.step_s and candidate.strategy != best.strategy
        return ends(top.rung, "improved" if better else "kept", change, candidate)

    def _best(self) -> Candidate:
        return rank(list(self.found.values()), "step_s")[0]

    def _measured(self, candidate: Candidate) -> Candidate:
        if self.stage != "modelled" and candidate.compiled is None:
            candidate = next(iter(self.bench.compile([candidate])))
        if self.stage == "timed" and candidate.best.fits and candidate.timed is None:
            candidate = next(self.bench.time([candidate]))
        return candidate

    def _error(self, candidate: Candidate) -> str:
        errors = [one.error for one in (candidate.compiled, candidate.timed) if one is not None and one.error]
        return (errors or ["no reason was given"])[0]
