"""The user's price tables on disk: whole or absent, and damage is reported, not fatal."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.price_table import PriceTable, RegionPrices
from lmi_deploy.errors import DiskRefused
from lmi_deploy.state.price_files import PriceFiles

TODAY = datetime.date(2026, 11, 22)


def prices(region: str = "us-east-1", usd: float = 1.4) -> RegionPrices:
    price = Price(hourly=usd, currency="USD", source="AWS price list of 2026-11-20", date="2026-11-20")
    hourly = {"ml.g5.xlarge": price}
    return RegionPrices(region=region, date=TODAY, source="AWS price list", hourly=hourly, complete=True)


def test_written_prices_are_read_again(tmp_path: Path) -> None:
    files = PriceFiles(tmp_path / "prices")
    assert files.read() == PriceTable(regions={})
    files.write(prices())
    files.write(prices("eu-west-1", 2.0))
    files.write(prices(usd=1.5))
    read = PriceFiles(tmp_path / "prices").read()
    assert read == PriceTable(regions={"us-east-1": prices(usd=1.5), "eu-west-1": prices("eu-west-1", 2.0)})
    assert sorted(path.name for path in (tmp_path / "prices").iterdir()) == [
        "eu-west-1.json",
        "us-east-1.json",
    ]


def table(**changes: Any) -> str:
    found = {
        "schema": 1,
        "region": "us-east-1",
        "date": "2026-11-22",
        "source": "AWS price list",
        "hourly": {"ml.g5.xlarge": [1.4, "USD", "2026-11-20"]},
    }
    return json.dumps({**found, **changes})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "damaged"),
        (table()[:-20], "damaged"),
        ("[]", "damaged"),
        (table(hourly=[]), "damaged"),
        (table(hourly={}), "no prices"),
        (table(hourly={"ml.g5.xlarge": ["dear", "USD", ""]}), "could not convert"),
        (table(hourly={"ml.g5.xlarge": [-1, "USD", ""]}), "not a positive number"),
        (table(hourly={"ml.g5.xlarge": [1.4]}), "not enough values"),
        (table(date="yesterday"), "Invalid isoformat"),
        (table(region="eu-west-1"), "it has the prices of eu-west-1"),
        (table(schema=2), "schema 2 is not known to this lmi"),
    ],
)
def test_damaged_file_is_a_problem_and_the_others_are_read(tmp_path: Path, text: str, why: str) -> None:
    files = PriceFiles(tmp_path)
    files.write(prices("eu-west-1"))
    (tmp_path / "us-east-1.json").write_text(text)
    read = files.read()
    assert set(read.regions) == {"eu-west-1"}
    (problem,) = read.problems
    assert str(tmp_path / "us-east-1.json") in problem
    assert why in problem
    assert problem.endswith("`lmi catalog refresh --region us-east-1` writes it again")


def test_binary_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "us-east-1.json").write_bytes(b"\xff\xfe\x00")
    assert len(PriceFiles(tmp_path).read().problems) == 1


def test_rest_of_an_interrupted_write_is_not_read(tmp_path: Path) -> None:
    files = PriceFiles(tmp_path)
    files.write(prices())
    (tmp_path / "us-east-1.json.tmp").write_text(table(hourly={}))
    assert files.read() == PriceTable(regions={"us-east-1": prices()})


def test_unwritable_folder_is_disk_refused(tmp_path: Path) -> None:
    (tmp_path / "prices").write_text("")
    with pytest.raises(DiskRefused):
        PriceFiles(tmp_path / "prices").write(prices())
    assert PriceFiles(tmp_path / "prices").read() == PriceTable(regions={})
