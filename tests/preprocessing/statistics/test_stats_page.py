"""The page holds every column and split, is well formed, and fetches nothing."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from pipeline.config import config_file
from pipeline.records import manifest
from preprocessing.build import job
from preprocessing.statistics import stats_page
from tests.preprocessing import tables
from tests.support import commands

_FIGURE = re.compile(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[manifest.Manifest, pathlib.Path]:
    """Records of a table with a value that is markup."""
    root = tmp_path_factory.mktemp("page")
    lines = tables.rows(300)
    lines[7] = "7,<b>&x,NA,1"
    (root / "in.csv").write_text(tables.text(*lines))
    with contextlib.redirect_stdout(io.StringIO()):
        return job.run(tables.make_config(root / "in.csv"), str(root)), root


@pytest.mark.parametrize("value", [0, "<b>"])
def test_a_sample_is_reported(made, value):
    sampled = manifest.Sampled(column="label", value=value, keep=0.1, dropped=1234)
    text = stats_page.render(made[0].model_copy(update={"sampled": sampled}), "x")
    shown = {0: "0", "<b>": "&lt;b&gt;"}[value]
    assert f"10 % of the rows of train with {shown} in label; 1,234 were left out." in text


def test_every_column_and_split_is_there(made):
    text = stats_page.render(made[0], "Records of <table>")
    assert text.count("<section>") == len(made[0].columns)
    assert text.count("<figcaption>train<") == text.count("<figcaption>eval<") == 4
    assert "<dt>missing</dt><dd>" in text and "Records of &lt;table&gt;" in text
    assert not re.search(r"https?:|<script|src=|url\(|<b>", text)


def test_plots_are_well_formed(made):
    for plot in re.findall(r"<svg.*?</svg>", stats_page.render(made[0], "x")):
        drawn = ElementTree.fromstring(plot)
        heights = [float(bar.get("height")) for bar in drawn.iter("rect")]
        assert all(0 <= height <= 90 for height in heights)


def test_columns_without_statistics_or_values():
    one = manifest.ColumnStatistics(count=0, missing=5)
    contents = manifest.Manifest(
        fingerprint="",
        columns={"x": tables.make_config("x").data.columns["id"]},
        label="x",
        block_records=1,
        sources=(),
        splits={},
        statistics={"train": manifest.Statistics(columns={"x": one})},
    )
    assert "no values" in stats_page.render(contents, "t") and "100.00%" in stats_page.render(
        contents, "t"
    )
    some = manifest.Statistics(columns={"x": one.model_copy(update={"count": 3})})
    contents = contents.model_copy(update={"statistics": {"train": some}})
    assert "not counted by value" in stats_page.render(contents, "t")


def test_of_lists_as_of_numbers_the_share_of_rows_is_missing():
    column = tables.make_config("x").data.columns["id"].model_copy(update={"shape": (10,)})
    contents = manifest.Manifest(
        fingerprint="",
        columns={"x": column},
        label="x",
        block_records=1,
        sources=(),
        splits={},
        statistics={
            "train": manifest.Statistics(
                columns={"x": manifest.ColumnStatistics(count=500, missing=50)}
            )
        },
    )
    assert "<dt>missing</dt><dd>50.00%</dd>" in stats_page.render(contents, "t")


def test_lists_show_how_many_items_a_row_has(tmp_path):
    lists = {"list": True, "max_items": 9, "separator": " ", "missing": "allow"}
    columns = {
        "id": {"type": "int64"},
        "tags": {"type": "string", **lists},
        "seen": {"type": "int64", **lists},
        "none": {"type": "float32", **lists},
        "label": {"type": "int64"},
    }
    # Of 200 lists each has 0 to 3 items; of `seen` every fifth is missing, the others have 2 or 4.
    seen = [None if n % 5 == 0 else "7 8" if n % 2 else "1 2 3 4" for n in range(200)]
    lines = [f'{n},"{" ".join(["a"] * (n % 4))}",{seen[n] or ""},"",{n % 2}' for n in range(200)]
    (tmp_path / "in.csv").write_text(tables.text(*lines, header=",".join(columns)))
    with contextlib.redirect_stdout(io.StringIO()):
        found = job.run(
            tables.make_config(tmp_path / "in.csv", columns, split={"eval": 0}), str(tmp_path)
        )
    sections = dict(re.findall(r"<h2>(\w+) (.*?)</section>", stats_page.render(found, "t")))
    figures = {name: dict(_FIGURE.findall(text)) for name, text in sections.items()}
    assert "<small>string, lists</small>" in sections["tags"]
    own = {"items a row": "1.5", "fewest": "0", "most": "3", "99 %": "3"}
    assert figures["tags"] == {"values": "300", "missing": "0.00%", **own, "different": "1"}
    own = {"items a row": "3", "fewest": "2", "most": "4", "99 %": "4"}
    some = {"values": "480", "missing": "20.00%", **own, "min": "1", "max": "8"}
    assert some.items() <= figures["seen"].items()
    own = {"items a row": "0", "fewest": "0", "most": "0", "99 %": "0"}
    assert figures["none"] == {"values": "0", "missing": "0.00%", **own}
    assert "no values</text>" in sections["none"] and "<rect" in sections["seen"]
    assert "items a row" not in figures["id"]


def test_the_command(made):
    config = made[1] / "table.yaml"
    config.write_text(config_file.dump(tables.make_config(made[1] / "in.csv")))
    done = commands.run("preprocessing.stats", f"--config={config}", f"--storage={made[1]}")
    assert (done.returncode, done.stderr) == (0, "")
    assert pathlib.Path(done.stdout.strip()).read_text().startswith("<!doctype html>")
    done = commands.run("preprocessing.stats", f"--config={config}", "--storage=/absent")
    assert "no manifest" in commands.read_error_line(done, 65)


def test_the_ends_of_an_axis_can_be_distinguished():
    drawn = stats_page.draw_axes("", np.linspace(1.7e9, 1.7e9 + 86_400, 41))
    assert ">1.70000e+09<" not in drawn and ">1.70009e+09<" in drawn.replace(",", "")
