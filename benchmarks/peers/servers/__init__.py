"""Wide & deep with its tables on servers, or copied to each process."""
