"""Record files and their manifest: framing, scanning, repair, builds."""
