"""Places to run a job at, a folder each: `pipeline.places` lists them, `base` says what one is."""
