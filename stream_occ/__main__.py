"""`python -m stream_occ` is `stream-occ`."""

from stream_occ.cli import main

if __name__ == "__main__":
    main()
