"""Fixtures of all tests."""

pytest_plugins = ("encoder_fixtures",)
