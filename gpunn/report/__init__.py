"""A comparison as one HTML file that needs nothing else: no network, no fonts, no scripts from elsewhere."""

from __future__ import annotations

from gpunn.report.page import html_report, write_report

__all__ = ["html_report", "write_report"]
