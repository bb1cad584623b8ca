"""Commands that move all data: backups, exports and imports."""
