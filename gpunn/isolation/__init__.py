"""Compilations that run in a worker process, so that a driver can end only that process."""
