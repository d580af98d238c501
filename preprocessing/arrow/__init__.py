"""Values as Arrow arrays: types, casts, byte buffers, Examples, images."""
