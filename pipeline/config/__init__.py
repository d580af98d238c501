"""What a job is: its config, section by section."""

from pipeline.config.cluster_config import Cluster
from pipeline.config.column_config import PROVENANCE, Column, VocabularyRules
from pipeline.config.data_config import Csv, Data, Download, Generate
from pipeline.config.eval_config import EarlyStopping, Eval
from pipeline.config.optimizer_config import Optimizer
from pipeline.config.sample_config import Sample
from pipeline.config.schema import Config, Name, digest
from pipeline.config.splits import SPLITS
from pipeline.config.train_config import Length, Profile, Train
from pipeline.sections import Section

__all__ = [
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
    "Generate",
    "Length",
    "Name",
    "Optimizer",
    "Profile",
    "Sample",
    "Section",
    "Train",
    "VocabularyRules",
    "digest",
]
