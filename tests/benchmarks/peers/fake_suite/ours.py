"""Reports twice the rate it was given."""

from benchmarks.peers import measure

measure.report(rate=2 * measure.read_settings()["rate"], cpu=0.5)
