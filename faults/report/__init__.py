"""What is published of runs: the page docs/reliability.md, and the committed results of blocks of seeds."""

from .page import Report, format_soak, format_summary, merge_reports, render, save, write_block_section, write_page

__all__ = [
    "Report",
    "format_soak",
    "format_summary",
    "merge_reports",
    "render",
    "save",
    "write_block_section",
    "write_page",
]
