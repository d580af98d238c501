"""The first stage: raw data to TFRecords and the manifest that names them."""
