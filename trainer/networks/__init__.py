"""Parts that models are built from: networks over the features of a config, in the graph of an
Estimator and as layers of Keras."""
