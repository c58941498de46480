"""Releases for every command that reads one: data and sidecar opened together, and only if they fit.

Several releases with one plan are one table; a release from a stream, which is public, is spooled where it
is read again. A sidecar is a plain record; `opened(sidecar)` is what follows from it, built once for equal
ones: its `recipes` in use, its `channels`, the `axis` of an attribute alone, the channel it goes `through`, the
`columns` of the data. `Strata` are what its records reveal.
"""

from __future__ import annotations

from ppdm_cli.releases.inspection import (
    Fact,
    Inspected,
    RecordFigures,
    attribute_figures,
    has_noise,
    inspect,
    limit_sentences,
    one_attribute_limit,
    promise_figures,
    record_figures,
    release_facts,
    sentences,
    unprotected,
)
from ppdm_cli.releases.ledger import Account, Entering, open_account
from ppdm_cli.releases.opened_release import (
    RecipeInUse,
    WideColumn,
    check_made,
    check_same,
    decode,
    in_rounds,
    opened,
    read_sidecar,
    recipes_in_use,
)
from ppdm_cli.releases.proof import proof_sentences, prove
from ppdm_cli.releases.release import (
    OWN,
    is_promised,
    open_data,
    open_original,
    open_release,
    open_releases,
    other_rows,
    rows_taken_text,
    spooled,
)
from ppdm_cli.releases.strata import (
    Exposure,
    Exposures,
    Grouped,
    Strata,
    Stratum,
    Unchanged,
    axes_of,
    axis_of,
    encoded,
    never_together,
)

__all__ = [
    "OWN", "Account", "Entering", "Exposure", "Exposures", "Fact", "Grouped", "Inspected",
    "RecipeInUse", "RecordFigures", "Strata", "Stratum", "Unchanged", "WideColumn",
    "attribute_figures", "axes_of", "axis_of", "check_made", "check_same", "decode", "encoded",
    "has_noise", "in_rounds", "inspect", "is_promised", "limit_sentences", "never_together",
    "one_attribute_limit",
    "open_account", "open_data", "open_original", "open_release", "open_releases", "opened", "other_rows",
    "promise_figures", "proof_sentences", "prove", "read_sidecar", "recipes_in_use", "record_figures",
    "release_facts", "rows_taken_text", "sentences", "spooled", "unprotected",
]  # fmt: skip
