"""Progress bars, tables and questions on a terminal, and the count of work that bars show."""
