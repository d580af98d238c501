"""Everything in the folder of a run: its config, state, locks, logs and exports.

- Files: `run_folder` (names and paths), `run_record` (run.json), `record_parts`, `history`,
  `accounts` (where the time went), `launches`, `losses`, `fallbacks`, `presence`, `server_loads`,
  `scalings`, `tags`.
- Which run: `run_search`, `run_list`, `array_names`, `run_lock`, `liveness`, `other_model`,
  `resuming`.
- Requests to a run: `stopping`, `scale_request`; answers: `status_report`.
- Logs: `log_writer`, `log_reader`.
- Exports: `exported`, `export_files`.
- Processes that a platform starts: `submitted_code`, `own_package`, `fatal`, `start_patience`,
  `evaluator_patience`, `script_role`.
"""
