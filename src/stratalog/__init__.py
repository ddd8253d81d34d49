"""The memory of an agent: a durable log of what was said, and what the model should see of it."""

__version__ = "0.1.0"
