"""Writes the JSON Schemas of published messages and of commands into docs/schemas; --check says which are stale."""

import argparse
import json
import sys
from pathlib import Path

from stream_occ.commands import SignedMessage
from stream_occ.messages import MESSAGES, CommandMessage, ReceiptMessage

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def schemas() -> dict[str, str]:
    """File name -> content."""
    texts = {}
    taken = {"command": CommandMessage, "received": ReceiptMessage, "signed": SignedMessage}
    for name, model in {**MESSAGES, **taken}.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
        texts[f"{name}.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return texts


def main() -> int:
    """0 where all files are (now) up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a file is out of date")
    is_check = parser.parse_args().check
    stale = []
    for name, text in schemas().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not is_check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'out of date' if is_check else 'written'}: docs/schemas/{name}")
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
