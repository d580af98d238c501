"""Settings that have the shipped jobs read the samples in data/, in place of what is downloaded."""

from __future__ import annotations

from pipeline.config import config_file

FLIGHTS = f"data.inputs.train.files={config_file.SHIPPED.parent}/data/flights/sample.csv.gz"
