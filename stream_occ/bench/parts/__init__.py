"""Parts of `stream-occ bench`: one file each, found by its name, with `measure(settings) -> Found`."""
