"""What runs on devices: module system, layers, outputs, optimizer, and the agent around a model."""
