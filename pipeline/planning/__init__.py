"""How fast a job would train with other numbers of workers and servers, by a calibration."""
