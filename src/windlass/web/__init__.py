"""HTTP for all dialects: listener, application, API documents and metrics. It imports no dialect."""
