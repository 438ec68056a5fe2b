"""A process's place among several, as launchers say it."""

from __future__ import annotations

import pytest

from lcplan.formats.errors import BadInputError
from planner.measure.workers.gang import VARIABLE, Gang, here, launched


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "4"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"},
    ],
)
def test_the_launchers_word(environment: dict[str, str]) -> None:
    assert launched(environment) == (4, 1)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"SLURM_PROCID": "0"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "many"},
        {"SLURM_PROCID": "", "SLURM_NTASKS": "2"},
    ],
)
def test_alone_is_no_gang(environment: dict[str, str]) -> None:
    with pytest.raises(BadInputError, match="give --coordinator HOST:PORT"):
        launched(environment)


def test_the_place_travels_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert here() is None
    gang = Gang(coordinator="a:1", processes=2, rank=1, devices_per_process=4, platform="cpu")
    for name, value in gang.environment.items():
        monkeypatch.setenv(name, value)
    assert here() == gang
    assert gang.devices == 8
