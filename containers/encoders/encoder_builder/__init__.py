"""Builds the encoders of a stack: ONNX graphs, and TensorRT plans where a GPU serves them."""
