"""docs/accuracy.md: every bundled table's errors, the constants fitted on it and the rows not modelled, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from planner.report.charts.accuracy_pictures import POINTS, picture_name
from planner.report.markdown.half_widths import half_widths
from planner.report.markdown.table import table
from planner.report.view.validation import errors, modelled, percent, ratio
from planner.validate.scoring.result import TableResult
from planner.validate.scoring.score import BAND

Row = tuple[object, ...]
HEAD = """# Accuracy

For people who want to know how far to trust an estimate.
`lcplan validate --page docs/accuracy.md` writes this page, and a test fails when it is stale.

The cost model's predictions are compared with published measurements, table by table, in the format of [tables](tables.md).
The error is the predicted value over the measured one, minus one.

* *mean* is the mean of absolute errors.
* *bias* is the mean of signed errors.
* *worst* is the largest error, signed.
* *LOO* (leave one out) is the mean absolute error of each row under constants and choices that were fitted on all the others.
  It is given where anything was fitted.
* *rank* is Spearman's correlation.
* *fitted* counts the constants that were fitted on rows of the table.
  It also counts the choices for fields that its source leaves open, one per table.
  Nothing is fitted per row.
"""


PAIRS = ("pairs", "pairs_in_order", "pairs_right")


def accuracy_page(results: Sequence[TableResult], stem: str = "accuracy") -> str:
    """The page, with a line break at its end; its pictures are in the same folder and named after ``stem``."""
    parts = (partial(_pictures, stem=stem), _summary, half_widths, _rankings, _orders, _verdicts, _excuses, _fitted, _seeds)
    return "\n".join([HEAD, *(line for part in parts for line in part(results))]).rstrip() + "\n"


def _pictures(results: Sequence[TableResult], *, stem: str) -> Iterator[str]:
    yield f"![Predicted and measured values, one square per table]({picture_name(stem, 'predicted')})\n"
    yield f"At most {POINTS} rows per table and kind are shown, spread evenly over the measured values."
    yield "On the diagonal both values are equal.\n"
    drawn = sum(r.modelled for r in results)
    yield f"![Rows by error, of {drawn} modelled rows]({picture_name(stem, 'errors')})\n"


def _summary(results: Sequence[TableResult]) -> Iterator[str]:
    yield f"## Errors\n\n{modelled(results)} are modelled.\nThe reasons of the others are [below](#not-modelled).\n"
    rows = [row for result in results for row in errors(result, without=("fits",))]
    yield from table(("table", "quantity", "rows", "mean", "bias", "worst", "LOO", "rank", "fitted"), rows, right=range(2, 9))
    yield "Tables that give only ratios:\n"
    yield from table(("table", "pairs", "mean error of the ratio", "worst"), _ratios(results), right=(1, 2, 3))


def _ratios(results: Sequence[TableResult]) -> Iterator[Row]:
    for result in results:
        found = [p.predicted_ratio / p.measured_ratio - 1.0 for p in result.pairs if p.predicted_ratio is not None]
        if found and not result.summary:
            mean, worst = sum(map(abs, found)) / len(found), max(found, key=abs)
            yield result.table.name, len(found), percent(mean), percent(worst, sign=True)


def _rankings(results: Sequence[TableResult]) -> Iterator[str]:
    yield "## The best scheme\n"
    yield "A comparison has rows that differ only in how the sequence is split, and in the trainer."
    yield "It is right if the scheme that measured best is predicted first, or within 5 % of first.\n"
    counted = [c for result in results for c in result.rankings if c.in_bar]
    yield "Nine of ten must be right in these tables:"
    yield f"{' + '.join(_bar_tables(results))}, together {sum(c.right for c in counted)} of {len(counted)}."
    yield "Most rows of usp-long-context-attention have heads of 32, unlike any model; its rows count only with heads of 128.\n"
    headings = ("table", "comparisons", "right", "wrong: best measured, its predicted time over the best predicted")
    yield from table(headings, _ranked(results), right=(1, 2))


def _orders(results: Sequence[TableResult]) -> Iterator[str]:
    yield "## The order of meshes\n"
    yield "Rows of one model, machine, batch, length, remat and program differ in mesh and scheme."
    yield "A pair of layouts counts if its measured times differ by more than the noise of the table, or 4 %."
    yield "It is right if it is predicted in the measured order, or the faster layout within 5 % of the other one.\n"
    rows = [(r.table.name, *(sum(getattr(o, name) for o in r.mesh_orders) for name in PAIRS)) for r in results]
    counted = [row for row in rows if row[1]]
    whole, ordered, right = (sum(int(row[i]) for row in counted) for i in (1, 2, 3))
    yield f"Of {whole} pairs {percent(right / max(whole, 1))} are right, and {percent(ordered / max(whole, 1))} in order.\n"
    yield from table(("table", "pairs", "in order", "right"), counted, right=(1, 2, 3))


def _ranked(results: Sequence[TableResult]) -> Iterator[Row]:
    for result in results:
        found = result.rankings
        if found:
            wrong = [f"{c.best} {c.predicted[c.best]:.2f} ({c.rows[0]})" for c in found if not c.right]
            yield result.table.name, len(found), sum(c.right for c in found), "; ".join(wrong) or "-"


def _bar_tables(results: Sequence[TableResult]) -> Iterator[str]:
    for result in results:
        found = [c.right for c in result.rankings if c.in_bar]
        if found:
            yield f"{result.table.name} {sum(found)}/{len(found)}"


def _verdicts(results: Sequence[TableResult]) -> Iterator[str]:
    yield "## Fits or out of memory\n"
    yield "Within 10 % of the budget a verdict is too close to call.\n"
    yield "A run that ran out of memory *contradicts* its own source if another of its runs needed at least as much and ran."
    yield (
        "The other run has the same model, device, trainer, scheme and tensor, as many tokens per device or more, its state "
        "on as many devices or fewer, and keeps every tensor that the first keeps."
    )
    yield "No model in which memory grows with these is right about both."
    yield "Such rows are counted, and listed separately.\n"
    headings = ("rows", "right", "too close to call", "others", "right", "predicted to fit but ran out", "contradictory")
    yield from table(("table", *headings), _judged(results), right=range(1, 8))
    wrong = list(_wrong_verdicts(results))
    if wrong:
        yield "The wrong verdicts among the others:\n"
        yield from table(("table", "row", "predicted", "need over budget", "note"), wrong, right=(3,))


def _judged(results: Sequence[TableResult]) -> Iterator[Row]:
    for result in results:
        entry = result.summary.get("fits")
        if entry is not None and entry.outside_band is not None:
            band, right = entry.outside_band, round(entry.rows * (1.0 - entry.mean_abs_error_ratio))
            close = entry.rows - band.outside_band_rows
            others = (band.outside_band_rows, band.outside_band_right, band.outside_band_unsafe, band.outside_band_contradicted)
            yield result.table.name, entry.rows, right, close, *others


def _wrong_verdicts(results: Sequence[TableResult]) -> Iterator[Row]:
    """Rows further than the band from their budget whose verdict is wrong."""
    for result in results:
        notes = {row.id: row.note for row in result.table.rows}
        for row in result.rows:
            need = float(row.predicted.get("budget_ratio", 1.0))
            if row.error_ratio.get("fits") and abs(need - 1.0) > BAND:
                said = "fits" if row.predicted["fits"] else "out of memory"
                beside = f"contradictory: {row.contradicted_by} ran" if row.contradicted_by else None
                yield result.table.name, row.id, said, f"{need:.2f}", beside or notes[row.id] or "-"


def _excuses(results: Sequence[TableResult]) -> Iterator[str]:
    yield "## Not modelled\n"
    yield from table(("table", "rows", "reasons"), _unmodelled(results), right=(1,))


def _unmodelled(results: Sequence[TableResult]) -> Iterator[Row]:
    for result in results:
        if result.excuses:
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(result.excuses.items()))
            yield result.table.name, len(result.rows) - result.modelled, reasons


def _fitted(results: Sequence[TableResult]) -> Iterator[str]:
    yield "## Fitted values and sources\n"
    yield from table(("table", "fitted on it", "FLOP convention", "source"), _freedoms(results))


def _freedoms(results: Sequence[TableResult]) -> Iterator[Row]:
    for result in results:
        source = result.table.source
        shown = [
            f"{entry.name} = {_value(entry.value)}" if entry.kind != "interpretation" else entry.name for entry in result.fitted
        ]
        yield result.table.name, "; ".join(shown) or "-", result.table.flop_convention, f"{source.title}. {source.where}"


def _value(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else value


def _seeds(results: Sequence[TableResult]) -> Iterator[str]:
    """Rows and pairs of the table that has a row for each backend."""
    for result in results:
        if result.table.name != "seed-s1-gb200-nvshmem":
            continue
        yield "## The seed's table, row by row\n"
        yield from table(("row", "measured TFLOP/s per device", "predicted", "error"), _seed_rows(result), right=(1, 2, 3))
        pairs = [
            (pair.a.removesuffix("-nvshmem"), ratio(pair.measured_ratio), ratio(pair.predicted_ratio)) for pair in result.pairs
        ]
        yield from table(("NVSHMEM over NCCL", "measured", "predicted"), pairs, right=(1, 2))


def _seed_rows(result: TableResult) -> Iterator[Row]:
    for row in result.rows:
        measured, predicted = (float(side["tflop_per_s_per_device"]) for side in (row.measured, row.predicted))
        error = percent(row.error_ratio["tflop_per_s_per_device"], sign=True)
        yield row.id, f"{measured:.1f}", f"{predicted:.1f}", error
