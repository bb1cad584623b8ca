"""Pages: each module reads data from the service and returns a view for the template of the same name."""
