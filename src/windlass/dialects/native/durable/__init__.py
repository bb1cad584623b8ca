"""Routes of durable jobs: steps and suspensions of workers, signals, rewinds."""
