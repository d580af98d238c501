"""What a job is: its config, section by section."""

from pipeline.config.optimizer_config import Optimizer
from pipeline.config.schema import (
    NAME_PATTERN,
    PROVENANCE,
    SPLITS,
    Cluster,
    Column,
    Config,
    Csv,
    Data,
    Download,
    EarlyStopping,
    Eval,
    Length,
    Name,
    Profile,
    Train,
    Vocabulary,
    digest,
)
from pipeline.config.sections import Section

__all__ = [
    "NAME_PATTERN",
    "PROVENANCE",
    "SPLITS",
    "Cluster",
    "Column",
    "Config",
    "Csv",
    "Data",
    "Download",
    "EarlyStopping",
    "Eval",
    "Length",
    "Name",
    "Optimizer",
    "Profile",
    "Section",
    "Train",
    "Vocabulary",
    "digest",
]
