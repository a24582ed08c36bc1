"""The experiments of both papers, run again with their data splits and printed beside the tables of the papers."""
