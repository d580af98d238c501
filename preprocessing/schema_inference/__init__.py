"""From raw data to a first config."""
