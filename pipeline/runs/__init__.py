"""Everything in the folder of a run: its config, state, locks, logs and exports."""
