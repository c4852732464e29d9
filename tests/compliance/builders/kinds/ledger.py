"""The examples of the rules about ledgers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import ledgers
from ledgers import edited, late, one_more, put_back, relined, relinked, served_first
from spoiling import Builder, bundle, edit_member, then

from suite.files.layout import TELEMETRY_FILE

BASES: Final[Mapping[str, Builder]] = {
    "ledger": ledgers.tree,
    "bundle-with-ledger": bundle(made=ledgers.tree),
    "recorded-tree": ledgers.recorded_tree,
    "recorded-bundle": bundle(made=ledgers.recorded_tree),
}
KINDS: Final = {"ledger": "ledger", "records": "recorded-tree"}
VALID: Final[Mapping[str, str | Builder]] = {
    "ledger.nonce": ledgers.fresh,
    "ledger.complete": "bundle-with-ledger",
    "bundle.ledger": "bundle-with-ledger",
    "tree.ledger": "recorded-tree",
    "ledger.begun": "recorded-tree",
}
INVALID: Final[Mapping[str, Builder]] = {
    "ledger.links": relined(lambda lines: [*lines[:5], *lines[6:]]),
    "ledger.nonce": edited(ledgers.challenged),
    "ledger.kept": edited(put_back),
    "ledger.order": edited(served_first),
    "ledger.times": edited(late),
    "ledger.complete": bundle(made=edited(one_more)),
    "records.present": relinked(f"**/{TELEMETRY_FILE}", Path.unlink),
    "ledger.begun": relinked(ledgers.LEDGER, Path.unlink, ledgers.adopted),
    "tree.ledger": then(ledgers.recorded_tree, ledgers.LEDGER, Path.unlink),
    "bundle.ledger": bundle(
        edit_member(
            "manifest.json",
            b'"ledger": {}',
            b'"ledger": {\n    "open/acme/ledger/resnet50.jsonl": "00"\n  }',
        )
    ),
}
