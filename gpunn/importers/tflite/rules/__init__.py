"""The rules of TFLite's operators: one module a family, gathered in table.py."""
