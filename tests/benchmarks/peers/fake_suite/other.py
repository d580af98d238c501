"""Reports the rate it was given, with other output before it."""

from benchmarks.peers import measure

print("a line of a library")
measure.report(rate=measure.read_settings()["rate"], cpu=1.5)
