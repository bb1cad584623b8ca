"""One module per page: it asks the service, and gives a view to the template of the same name."""
