"""Where Beam runs: options, processes of this machine, Dataflow."""
