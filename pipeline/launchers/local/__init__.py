"""This machine: preprocessing if needed, then every process of the cluster, supervised."""
