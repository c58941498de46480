"""The version, in the one place that the package, the sidecars and the build read it from."""

__version__ = "0.1.0"
