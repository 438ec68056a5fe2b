"""The tuner's trials as a table: what improved and the front are always there, marked; the last of the others fill it up."""

from rich.console import Console

from planner.report.terminal.tuning import SHOWN, tuning_view


def trial(number, outcome="pruned", *, pareto=False):
    told = {"number": number, "outcome": outcome, "pareto": pareto, "rung": "modelled"}
    return told | {"strategy": f"{number}: 32: c16 t2 ring-zigzag full mb16", "says": "so it was, with many words about why"}


def lines(history):
    console = Console(width=120, no_color=True)
    with console.capture() as shown:
        console.print(tuning_view(history))
    return shown.get().splitlines()


def test_what_improved_and_the_front_are_marked_among_the_last_of_the_others():
    history = [trial(0, "improved", pareto=True), trial(1, "kept", pareto=True), trial(2, "improved")]
    title, *rows = lines([*history, *(trial(number) for number in range(3, 40))])
    assert title.startswith("Tuning: 40 trials: 2 improved, 1 kept, 37 pruned; * on the front of step time,")
    rows = [row for row in rows if row[:1].isdigit()]
    assert [int(row.split()[0]) for row in rows] == [0, 1, 2, *range(40 - SHOWN + 3, 40)]
    assert [row.split()[3] == "*" for row in rows[:4]] == [True, True, False, False]


def test_many_that_improved_leave_no_room_for_others():
    history = [trial(number, "improved") for number in range(SHOWN)]
    shown = lines([*history, *(trial(number) for number in range(SHOWN, 60))])
    assert sum(line[:1].isdigit() for line in shown) == SHOWN
