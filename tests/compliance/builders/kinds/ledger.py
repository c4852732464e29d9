"""The examples of the rules about ledgers."""

from collections.abc import Mapping
from typing import Final

import ledgers
from ledgers import edited, late, one_more, put_back, relined, served_first
from spoiling import Builder, bundle, edit_member

BASES: Final[Mapping[str, Builder]] = {
    "ledger": ledgers.tree,
    "bundle-with-ledger": bundle(made=ledgers.tree),
}
KINDS: Final = {"ledger": "ledger"}
VALID: Final[Mapping[str, str | Builder]] = {
    "ledger.nonce": ledgers.fresh,
    "ledger.complete": "bundle-with-ledger",
    "bundle.ledger": "bundle-with-ledger",
}
INVALID: Final[Mapping[str, Builder]] = {
    "ledger.links": relined(lambda lines: [*lines[:5], *lines[6:]]),
    "ledger.nonce": edited(ledgers.challenged),
    "ledger.kept": edited(put_back),
    "ledger.order": edited(served_first),
    "ledger.times": edited(late),
    "ledger.complete": bundle(made=edited(one_more)),
    "bundle.ledger": bundle(
        edit_member(
            "manifest.json",
            b'"ledger": {}',
            b'"ledger": {\n    "open/acme/ledger/resnet50.jsonl": "00"\n  }',
        )
    ),
}
