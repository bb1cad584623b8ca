"""View helpers of pages: charts, icons, numbers, values."""
