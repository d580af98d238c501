"""What happens to a row: rules, split, order, provenance."""
