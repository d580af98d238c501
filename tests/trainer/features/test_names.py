"""Names that TensorFlow takes."""

from __future__ import annotations

from trainer.features import names


def test_arguments_of_columns_are_distinguished():
    assert names.name_arguments(["dep time", "价格", "数量", "column___2", "in", "重量"]) == {
        "dep time": "dep_time",
        "价格": "column___",
        "数量": "column____2",
        "column___2": "column___2",
        "in": "column_in",
        "重量": "column____3",
    }
