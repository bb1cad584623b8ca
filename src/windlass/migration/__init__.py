"""Move jobs in from the Redis of Jobber, of the processor and of skroutz's downloader."""
