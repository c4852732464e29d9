"""Flips single bits of a signed bundle, in its archive, seal, frame, statement or signature, and
counts how many results are called valid and how many end in a traceback.

One bundle is packed from a results folder and signed with a key made for it. Each flip is checked
as by `podium verify --signers`. The judge runs once, on the unchanged bundle, since a bundle with
damaged bytes or signatures is rejected before it is judged.

Usage: python benchmarks/flipped_bits.py [--flips 10000] [--seed 1] [--results DIR] [--format
text|json]
"""

import argparse
import json
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common.tiny import add_tiny_option, choose_size

from compliance.bundle import trailer
from compliance.bundle.seal import SEAL_BYTES
from submissions.pack.bundle import pack_results
from submissions.pack.seal import inspect_bundle
from submissions.signatures import armor, bundled, ssh_keygen
from submissions.signatures.signing import sign_bundle
from submissions.signatures.ssh_keygen import SignatureStatus, TrustedSigners

RESULTS: Final = Path(__file__).parents[1] / "tests" / "examples" / "valid" / "checkpoint.record"
SIGNER: Final = "bench@lab.example"
BITS: Final = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flips", type=int, default=choose_size(10_000, 20))
    parser.add_argument("--seed", type=int, default=1)
    add_tiny_option(parser)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    return parser.parse_args()


def signed_bundle(results: Path, folder: Path) -> tuple[Path, TrustedSigners]:
    """Pack and sign; return the bundle, and the signers file that trusts the key."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True
    )
    allowed = folder / "allowed_signers"
    allowed.write_text(
        f'{SIGNER} namespaces="{ssh_keygen.SIGNATURE_NAMESPACE}" {(folder / "key.pub").read_text()}'
    )
    bundle = pack_results(results, folder / "signed.tar.zst")
    sign_bundle(bundle, folder / "key", SIGNER, False)
    return bundle, TrustedSigners(allowed=allowed)


def parts(bundle: Path) -> dict[str, range]:
    """Return the byte ranges of the parts of a signed bundle."""
    sealed, size = trailer.read_bundle_trailer(bundle).sealed, bundle.stat().st_size
    statement = sealed + SEAL_BYTES + trailer.SKIPPABLE_HEADER_BYTES
    signature = bundle.read_bytes().index(armor.ARMOUR_BEGIN, statement)
    heads = {
        "archive": range(sealed),
        "seal": range(sealed, sealed + SEAL_BYTES),
        "frame's head": range(sealed + SEAL_BYTES, statement),
    }
    return heads | {"statement": range(statement, signature), "signature": range(signature, size)}


def flips(bundle: Path, count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Draw equally many bits in each part, or all of a part that has fewer."""
    draw, found = random.Random(seed), parts(bundle)
    for index, (name, place) in enumerate(sorted(found.items(), key=lambda part: len(part[1]))):
        share = count // (len(found) - index)
        bits = range(place.start * BITS, place.stop * BITS)
        chosen = draw.sample(bits, share) if share <= len(bits) else [*bits]
        count -= len(chosen)
        yield from ((name, bit) for bit in chosen)


def valid(bundle: Path, signers: TrustedSigners) -> bool:
    """Return whether a bundle's bytes are intact, with a good signature and no bad one."""
    if any(inspect_bundle(bundle)):
        return False
    standings = {
        each.standing
        for each in bundled.verify_bundle_signatures(
            bundle, trailer.read_bundle_trailer(bundle), signers
        )
    }
    return standings == {SignatureStatus.GOOD}


def main() -> None:
    """Count."""
    given = arguments()
    begun, counts, tracebacks = time.monotonic(), Counter[str](), Counter[str]()
    good: list[tuple[str, int]] = []
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        bundle, signers = signed_bundle(given.results, Path(folder))
        data, other = bundle.read_bytes(), bundle.with_name("flipped.tar.zst")
        assert valid(bundle, signers)
        for name, bit in flips(bundle, given.flips, given.seed):
            changed = bytearray(data)
            changed[bit // BITS] ^= 1 << bit % BITS
            other.write_bytes(changed)
            counts[name] += 1
            try:
                good += [(name, bit)] if valid(other, signers) else []
            except Exception:  # what is counted
                tracebacks[traceback.format_exc(limit=-1)] += 1
    seconds = time.monotonic() - begun
    told = {
        "flips": dict(counts),
        "n": sum(counts.values()),
        "valid": len(good),
        "tracebacks": sum(tracebacks.values()),
        "seconds": round(seconds, 1),
    }
    if given.format == "json":
        print(json.dumps(told | {"valid_at": good, "traces": dict(tracebacks)}, indent=2))
    else:
        print(
            f"{told['n']} bundles with one flipped bit"
            f" ({', '.join(f'{count} in the {name}' for name, count in counts.items())}), seed"
            f" {given.seed}"
        )
        print(f"valid: {len(good)}; tracebacks: {told['tracebacks']}; {seconds:.0f} s")
        print("".join(tracebacks), end="")


if __name__ == "__main__":
    sys.path.insert(0, str(RESULTS.parents[2] / "shared"))
    from judged_examples import ensure_examples

    ensure_examples()
    main()
