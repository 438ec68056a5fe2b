"""The tuning loop: ask Optuna, price, compile, time, report back. The bench makes each measurement once."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcplan.formats.units import format_bytes, format_seconds
from lcplan.strategy import Strategy
from lcplan.strategy.remat import of_stored
from planner.candidates.candidate import Candidate
from planner.candidates.ranking import rank
from planner.measure.workers.job import STEP
from planner.request.request import Stage
from planner.run.measuring import Bench
from planner.run.tune.budget import Budget
from planner.run.tune.knobs import TuningSpace
from planner.run.tune.trial import Outcome, TunedTrial
from planner.space.analysis import setting_of
from planner.study.location import canonical_url, open_storage
from planner.study.store import talking_to
from planner.workloads.points import broken_rules
from planner.workloads.pricing import price

STUDY = "lcplan-tune"
MESHES = 4
WORTH_COMPILING = 1.15
"""A trial whose modelled step is longer than this many times the best one's is not compiled: between strategies of one mesh the
cost models are not off by more (docs/accuracy.md)."""
STALE = 100
"""Suggestions in a row that were all tried before: the space has no more, or no more that the sampler would pick."""
Objectives = list[float] | None
"""Step time [s], memory [bytes per device] and devices; None for a trial that ended before they counted."""
Watch = Callable[[TunedTrial], None]


@dataclass(frozen=True)
class _Study:
    """Optuna's study with this project's trials."""

    study: Any

    def tried(self) -> dict[Strategy, Objectives]:
        """Strategies of finished trials, including an interrupted run's, with the values that Optuna got."""
        trials = self.study.get_trials(deepcopy=False)
        known = (one for one in trials if one.state.is_finished() and "strategy" in one.user_attrs)
        return {Strategy.model_validate(of_stored(json.loads(one.user_attrs["strategy"]))): one.values for one in known}

    def enqueue(self, parameters: dict[str, Any] | None) -> None:
        """Try these before the sampler's suggestions, where the space holds them."""
        if parameters is not None:
            self.study.enqueue_trial(parameters, skip_if_exists=True)

    def ask(self) -> Any:
        """The next trial. Heartbeats are for workers; a trial that died with its process is simply asked again."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Heartbeat of storage")
            return self.study.ask()

    def tell(self, trial: Any, tried: TunedTrial) -> Objectives:
        """The outcome as values, or as a pruned trial that teaches nothing about the objectives, with the words for it."""
        trial.set_user_attr("history", tried.to_json())
        trial.set_user_attr("strategy", tried.strategy.model_dump_json())
        values = None
        if tried.candidate is not None and tried.outcome in ("improved", "kept"):
            best = tried.candidate.best
            values = [best.step_s, float(best.memory_bytes), float(tried.strategy.devices)]
        self.repeat(trial, values)
        return values

    def repeat(self, trial: Any, values: Objectives) -> None:
        """Report a trial's outcome; a strategy that was tried before has the same outcome."""
        from optuna.trial import TrialState

        if values is None:
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            self.study.tell(trial, values)

    def history(self) -> list[dict[str, Any]]:
        """Return the trials in order, of this run and earlier ones; ``pareto``: on the front of the three objectives."""
        front = {trial.number for trial in self.study.best_trials}
        trials = self.study.get_trials(deepcopy=False)
        kept = (trial for trial in trials if "history" in trial.user_attrs)
        told = [trial.user_attrs["history"] | {"pareto": trial.number in front} for trial in kept]
        return [one | {"number": number} for number, one in enumerate(told)]  # two searches at once count from the same number


@dataclass(frozen=True)
class Tuned:
    """``candidates`` are the search's and the tuner's, best first; ``history`` is the study's, trial by trial."""

    candidates: tuple[Candidate, ...]
    history: tuple[dict[str, Any], ...]
    interrupted: bool = False
    """Whether somebody ended it by hand before its budget was used up."""


def tune(
    bench: Bench, candidates: Sequence[Candidate], budget: Budget, *, stage: Stage, url: str, watch: Watch = lambda _: None
) -> Tuned:
    """Try knobs around the meshes of the best ``candidates`` until the budget is used up.

    The best modelled strategy is tried first. A trial is priced, then compiled where it is worth it, then timed where it fits
    and ``stage`` asks for it. ``watch`` sees each trial that ends. The result includes the candidates of earlier runs.
    """
    fitting = [one for one in rank(list(candidates), bench.request.objective) if one.best.fits]
    if not fitting:
        return Tuned(tuple(candidates), ())
    bases = tuple({one.strategy.mesh: one.strategy for one in reversed(fitting)}.values())[::-1][:MESHES]
    space = TuningSpace(bases, bench.request, bench.toolchain.jax or "0", measured=stage != "modelled")
    trying, interrupted = _Trying(bench, stage, {one.strategy: one for one in candidates}), False
    with talking_to(url):
        study = _open(canonical_url(url), _name(bench, stage))
        trying.recall(study.tried())
        for candidate in fitting:  # their compiles are there already, and the sampler starts from what is known
            study.enqueue(space.parameters_of(candidate.strategy))
        try:
            for tried in _trials(study, space, trying, budget=budget):
                watch(tried)
        except KeyboardInterrupt:  # what was found so far is worth a plan
            interrupted = True
        history = tuple(study.history())
    return Tuned(tuple(rank(list(trying.found.values()), bench.request.objective)), history, interrupted)


def _name(bench: Bench, stage: Stage) -> str:
    """Name one study for each request, stage and measuring device: modelled and timed seconds are not mixed."""
    measures = [STEP.version, dict(bench.toolchain.versions)] if stage != "modelled" else []
    facts = [bench.request.identity, measures]
    return f"{STUDY}-{stage}-{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]}"


def _open(url: str, name: str) -> _Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=8)
    storage = open_storage(url)
    directions = ["minimize"] * 3  # step time, memory, devices
    return _Study(
        optuna.create_study(study_name=name, storage=storage, sampler=sampler, directions=directions, load_if_exists=True)
    )


def _trials(study: _Study, space: TuningSpace, trying: _Trying, *, budget: Budget) -> Iterator[TunedTrial]:
    """Run until the budget is used up, or the sampler has nothing new to suggest."""
    begun, known, again = time.monotonic(), study.tried(), 0
    while again < STALE and not budget.over(trials=len(known), seconds=time.monotonic() - begun):
        trial = study.ask()
        strategy = space.suggest(trial.suggest_categorical)
        again = again + 1 if strategy in known else 0
        if again:
            study.repeat(trial, known[strategy])
            continue
        tried = trying.attempt(len(known), strategy)
        known[strategy] = study.tell(trial, tried)
        yield tried


@dataclass(frozen=True)
class _Trying:
    """Decide how far each trial goes; ``found`` holds the candidates worth keeping."""

    bench: Bench
    stage: Stage
    found: dict[Strategy, Candidate]

    def recall(self, tried: Mapping[Strategy, Objectives]) -> None:
        """Restore the candidates that an earlier run kept; the bench has their measurements."""
        for strategy, values in tried.items():
            if values is not None and strategy not in self.found:
                self.found[strategy] = self._measured(price(self.bench.request, strategy))

    def attempt(self, number: int, strategy: Strategy) -> TunedTrial:
        """Try one strategy, and keep it where it fits by the best that is known of it."""
        tried = self._tried(number, strategy)
        if tried.candidate is not None and tried.outcome in ("improved", "kept"):
            self.found[strategy] = tried.candidate
        return tried

    def _tried(self, number: int, strategy: Strategy) -> TunedTrial:
        """Rules, price, compile, time: as far as it is worth it."""

        def ends(rung: str, outcome: Outcome, says: str, candidate: Candidate | None = None) -> TunedTrial:
            return TunedTrial(number, strategy, rung, outcome, says, candidate)

        broken = broken_rules(setting_of(self.bench.request), strategy)
        if broken:
            return ends("rules", "rejected", broken[0])
        best = self._best()
        candidate = self.found.get(strategy) or price(self.bench.request, strategy)
        if not candidate.estimate["fits"]:
            return ends("modelled", "pruned", "does not fit by the model", candidate)
        modelled = self._cost(candidate, candidate.estimate["step_s"]) / self._cost(best, best.estimate["step_s"])
        if modelled > WORTH_COMPILING:
            return ends("modelled", "pruned", f"{modelled:.2f} times the best one's model{self._by}", candidate)
        candidate = self._measured(candidate)
        top = candidate.best
        if not candidate.usable:
            return ends(top.rung, "failed", self._error(candidate), candidate)
        if not top.fits:
            return ends(top.rung, "pruned", f"{format_bytes(top.memory_bytes)} as compiled do not fit", candidate)
        ratio = self._cost(candidate, top.step_s) / self._cost(best, best.best.step_s)
        change = f"{format_seconds(top.step_s)}, {ratio:.3f} times {best.strategy.label}{self._by}"
        return ends(top.rung, "improved" if ratio < 1 and strategy != best.strategy else "kept", change, candidate)

    @property
    def _by_device(self) -> bool:
        return self.bench.request.objective == "tokens_per_s_per_device"

    @property
    def _by(self) -> str:
        """Return the quantity that compares two candidates, where it is not the step."""
        return " in device-seconds" if self._by_device else ""

    def _cost(self, candidate: Candidate, step_s: float) -> float:
        """The quantity that the objective minimizes: seconds of a step, or of all of its devices together."""
        return step_s * (candidate.strategy.devices if self._by_device else 1)

    def _best(self) -> Candidate:
        return rank(list(self.found.values()), self.bench.request.objective)[0]

    def _measured(self, candidate: Candidate) -> Candidate:
        if self.stage != "modelled" and candidate.compiled is None:
            candidate = next(iter(self.bench.compile([candidate])))
        if self.stage == "timed" and candidate.best.fits and candidate.timed is None:
            candidate = next(self.bench.time([candidate]))
        return candidate

    def _error(self, candidate: Candidate) -> str:
        errors = [one.error for one in (candidate.compiled, candidate.timed) if one is not None and one.error]
        return (errors or ["no reason was given"])[0]
