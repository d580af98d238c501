"""Numbers that float32 would make equal are told from those that it keeps apart."""

from __future__ import annotations

import decimal

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from pipeline import config
from preprocessing.arrow import cast
from preprocessing.schema_inference import precision, traits, write_config
from tests.preprocessing.schema_inference.surveyed import survey_values

_IDS = [str(2**63 + n % 40) for n in range(400)]


@pytest.mark.parametrize("odd", ["9.3e18", "1.5"])
def test_a_few_floats_make_no_float_of_large_identifiers(odd):
    values = [odd if n % 100 == 0 else text for n, text in enumerate(_IDS)]
    assert survey_values(values).kind == "string"
    assert survey_values(list(reversed(values))).kind == "string"


def test_large_amounts_stay_floats():
    amounts = np.random.default_rng(1).lognormal(44, 2, 400)
    assert survey_values([f"{amount:.0f}" for amount in amounts] + ["0.5"]).kind == "float32"


def test_different_numbers_are_counted_to_the_last_digit():
    found = survey_values([*(str(2**60 + n) for n in range(40)), "1.5"])
    assert found.kind == "float32" and traits.count_merged(found) == (41, 2)
    assert precision.count_exactly(["1", "1.0", "inf", "nan", f"{2**60}", f"{2**60}.0"]) == 2


@pytest.mark.parametrize("text", [str, "{}.5".format])
def test_of_very_many_numbers_all_are_looked_at(text):
    rng = np.random.default_rng(2)
    far = [text(n) for n in rng.integers(1_700_000_000_000, 1_700_086_400_000, 5000)]
    different, apart = traits.count_merged(survey_values(far, most=1000))
    assert different == pytest.approx(len(set(far)), rel=0.1) and apart < 1000
    near = [text(n) for n in range(5000)]
    assert traits.count_merged(survey_values([*near, *(f"{n}0" for n in near)], most=1000)) is None


def _written(folder, kind, ids):
    """The path of a file with a column of decimals and a label."""
    path = str(folder / f"ids.{kind}")
    rows = [{"u": decimal.Decimal(n), "y": n % 2} for n in ids]
    if kind == "avro":
        of_ids = {"type": "bytes", "logicalType": "decimal", "precision": 20}
        fields = [{"name": "u", "type": of_ids}, {"name": "y", "type": "long"}]
        with open(path, "wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)
        return path
    table = pa.Table.from_pylist(rows, pa.schema([("u", pa.decimal128(20, 0)), ("y", pa.int64())]))
    (pq.write_table if kind == "parquet" else pyarrow.orc.write_table)(table, path)
    return path


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(("first", "becomes"), [(2**63, "string"), (2**62, "int64")])
def test_decimals_without_a_fraction_are_whole_numbers(tmp_path, kind, first, becomes):
    path = _written(tmp_path, kind, [first + n % 60 for n in range(300)])
    _, found = write_config.explore(path)
    assert found.columns["u"].kind == becomes
    said = write_config.propose(path, str(tmp_path / "out.yaml")).remarks
    assert any("float32 makes" in line for line in said) is (becomes == "int64")


def test_decimals_are_the_text_that_csv_has():
    ids = pa.array([decimal.Decimal(10**25 + 7)], pa.decimal128(38, 0))
    made, faults = cast.convert(ids, config.Column(type="string"))
    assert (made.to_pylist(), faults) == ([str(10**25 + 7)], [])


@pytest.mark.parametrize(
    ("first", "step", "rounded"),
    [(2**63, 4096, True), (2**55, 4096, True), (2**50, 4096, False), (2**63, 2**45, False)],
)
def test_whole_floats_that_may_be_ids_draw_a_fitting_warning(tmp_path, first, step, rounded):
    ids = np.array([float(first + step * (n % 20)) for n in range(300)])
    path = str(tmp_path / "ids.parquet")
    pq.write_table(pa.table({"u": ids, "y": np.arange(300) % 2}), path)
    said = write_config.propose(path, str(tmp_path / "out.yaml")).remarks
    ours = "'u' has whole numbers beyond 2^53 as float64, which has not all of these: if they are"
    assert any(line.startswith(ours) for line in said) is rounded
    assert not (rounded and any("Subtract" in line for line in said))


def test_whole_floats_are_counted_as_int64():
    values, counts = traits.count_numbers(
        survey_values([float(2**55), float(2**55 + 4096), float(2**55)])
    )
    assert values.tolist() == [2**55, 2**55 + 4096] and counts.tolist() == [2, 1]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("digits", [40, 400, 5001])
def test_numbers_of_any_length_are_read(tmp_path, suffix, digits):
    """Python refuses to read some thousand digits, and float32 has no room for forty."""
    rows = [*(str(10**19 + n) for n in range(50)), "9" * digits]
    form = {"csv": "{},{}\n", "jsonl": '{{"a": {}, "b": {}}}\n'}[suffix]
    path = tmp_path / f"x.{suffix}"
    head = "a,b\n" if suffix == "csv" else ""
    path.write_text(head + "".join(form.format(a, n % 2) for n, a in enumerate(rows)))
    assert write_config.explore(str(path))[1].columns["a"].kind == "string"
