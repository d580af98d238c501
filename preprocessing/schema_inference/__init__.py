"""From raw data to a first config: `make schema`.

- How the files are written: `detect_format`, `detect_kind`, `detect_encoding`, `detect_examples`,
  `file_columns`, `folder_pattern`, `header`, `stray_quotes`, `latin_letters`; the answer is a
  `raw_format`.
- What the columns hold: `profile`, `traits`, `dates`, `unix_times`, `extremes`, `precision`,
  `bad_texts`.
- What the config says: `heuristics`, `suggest_label`, `suggest_dates`, `suggest_lists`,
  `suggest_model`; `write_config`, `image_config` and `yaml_lines` write it.
- Warnings: `remarks`, `label_remarks`, `damage`, `leaks`, `monotone`, `class_ranges`, `outliers`,
  `sentinels`, `stand_ins`, `unread_dates`.
"""
