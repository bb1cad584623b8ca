"""Commands about durable state: steps, suspensions, signals, streams."""
