"""Fuzzing: damaged model files of every format are read, compiled and run on both backends, without end.

    python -m tests.fuzz --cases 100000

Cases run in worker processes with limits of time and memory, so that a crash or a hang of one costs no other.
A corpus keeps one file for each outcome that was seen, the smallest; its files are damaged in turn like the
sound ones. The file of a fault is kept in the corpus' folder `faults`, and `--again FILE` judges it again.
"""
