"""One build of records: the Beam pipeline, equal rows, its fingerprint, replays and clean-up."""
