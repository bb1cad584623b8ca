"""Page of alert rules, and the open incidents on the overview."""
