"""The published microseconds of collective matmul: one shape is chosen by the unsharded row, the others follow."""

from planner.validate.run import validate
from planner.validate.sources.bundled import find_table


def test_the_published_microseconds_within_a_tenth():
    table, path = find_table("seed-s2-v5e-collective-matmul")
    rows = {row.id: row for row in validate(table, path.parent).rows}
    assert len(rows) == 6
    for row in rows.values():
        assert abs(row.error_ratio["step_s"]) < 0.10, row.id
    for name in ("matmul", "ffn"):
        assert abs(rows[f"{name}-unsharded"].error_ratio["step_s"]) < 0.01
