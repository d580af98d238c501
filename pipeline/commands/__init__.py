"""Commands on configs, runs and this machine, a module each; `pipeline.launch` runs whole jobs."""
