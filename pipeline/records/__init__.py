"""Records on disk, and what is known of them from their manifest.

- Formats: `tfrecord`, `idx`, `file_kinds`.
- Builds: `manifest`, `builds`, `in_place`, `epochs`.
- Damage: `scan`, `shard_check`, `verified`, `repair`, `quarantine`.
- From statistics: `feature_plan`, `kept_plan`, `label_check`, `table_sizes`, `padded_lists`,
  `item_shares`, `coarse`.
- Two sets compared: `drift`, `distances`.
"""
