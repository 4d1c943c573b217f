"""Builds TensorRT-LLM engines once per content and keeps them in the engine store."""
