"""One build of records: the Beam pipeline, its fingerprint, replays and clean-up."""
