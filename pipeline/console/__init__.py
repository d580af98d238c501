"""Progress bars, tables and questions on a terminal."""
