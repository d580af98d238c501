import re

from pipeline.config import price_table
from pipeline.launchers.gcp import price_list, settings

PRICES = price_table.Prices("2026-01-02", {"n1-standard-4": 0.25, "NVIDIA_TESLA_T4": 0.5})
WITH_GPUS = settings.Machine(type="n1-standard-4", accelerator="NVIDIA_TESLA_T4", accelerators=2)


def test_the_shipped_table_has_a_date_and_the_default_machine():
    prices = price_table.read()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", prices.date)
    assert price_list.price(settings.Machine(), prices) > 0
    assert all(0 < price < 50 for price in prices.usd.values())


def test_accelerators_are_counted():
    assert price_list.price(WITH_GPUS, PRICES) == 1.25
    assert price_list.price(settings.Machine(type="n2-standard-8"), PRICES) is None


def test_the_estimate_says_that_it_is_one_and_of_when():
    gcp = settings.Gcp(machines={"worker": WITH_GPUS})
    said = price_list.estimate({"chief": 1, "worker": 2, "ps": 0}, gcp, PRICES)
    assert said.splitlines() == [
        "cost, an estimate by list prices of 2026-01-02 in us-central1 (configs/prices.csv):",
        "  chief      1 x n1-standard-4: 0.25 USD/h",
        "  worker     2 x n1-standard-4 + 2 NVIDIA_TESLA_T4: 2.50 USD/h",
        "  all        2.75 USD/h in us-central1",
    ]


def test_in_another_region_the_table_s_is_named_and_how_much_more_it_may_be():
    gcp = settings.Gcp(region="europe-west4")
    said = price_list.estimate({"chief": 4}, gcp, PRICES)
    assert said.endswith(
        "all        1.00 USD/h in us-central1; up to 1.40 in europe-west4, for which there is no "
        "table"
    )
    here = price_list.estimate({"chief": 4}, settings.Gcp(region="us-central1"), PRICES)
    assert here.endswith("all        1.00 USD/h in us-central1")


def test_what_has_no_price_makes_it_a_lower_bound():
    gcp = settings.Gcp(machines={"ps": settings.Machine(type="n2-standard-8")}, spot=True)
    said = price_list.estimate({"chief": 1, "ps": 1}, gcp, PRICES)
    assert "ps         1 x n2-standard-8: not in the table" in said
    assert "all        at least 0.25 USD/h" in said
    assert "spot machines cost less" in said
