"""Test people and test devices: synthetic wearers, replay of recordings. Never imports a detector."""
