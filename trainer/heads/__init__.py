"""From what a network says to loss, predictions and metrics: the heads, and means and metrics in
the graph of an evaluation."""
