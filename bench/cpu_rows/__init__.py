"""The rows of bench/cpu.py, a module for each family, and the peers they are compared with."""
