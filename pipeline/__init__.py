"""What joins the two stages: configs, contracts between them, storage, and every process."""
