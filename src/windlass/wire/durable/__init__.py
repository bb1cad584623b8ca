"""Shapes of durable state: steps, suspensions and signals of jobs."""
