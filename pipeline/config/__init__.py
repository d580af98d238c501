"""The typed config of a job: what may stand in it, how it is read, and what is checked together.

- Sections of a config: `schema` (all of it), `data_config`, `column_config`, `sample_config`,
  `splits`, `feature_config`, `labels_config`, `model_config`, `train_config`, `optimizer_config`,
  `eval_config`, `slices`, `drift_config`, `cluster_config`. Those of places are in their folders.
- Reading: `config_file`, `yaml_loader`, `raw_data`; `findings` explains errors, `reference` writes
  docs/config.md, both in `type_words`.
- Rules across sections: `feature_check`, `date_rules`, `sequences`, `list_weights`,
  `shared_tables`; `own_input`, `own_code` and `in_place` for what users bring.
- Tables: `strategy_table`, `price_table`.
"""

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
