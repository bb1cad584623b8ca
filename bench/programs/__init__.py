"""Programs that measurements start in processes of their own."""
