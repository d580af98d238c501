"""What processes report while they train."""
