"""Fall alerts from wearable accelerometer and gyroscope streams, learned from normal activity alone."""

__version__ = "0.1.0"
