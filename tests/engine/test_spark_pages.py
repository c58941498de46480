"""Spark's two readers, one of them parquet-mr's, find in pages of codes what the codes stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ppdm_cli.domain import Categories
from ppdm_cli.tables import pages
from tests.engine.cluster import needs_spark
from tests.engine.test_spark_rows import session
from tests.tables.test_pages import CODECS, all_widths, by_pyarrow, numbers, written

assert session


@needs_spark
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_finds_what_the_codes_stand_for(
    session: Any, vectorized: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    kinds = [pa.int8(), pa.int32(), pa.float32(), pa.float64(), pa.date32(), pa.decimal128(9, 2)]
    domains = [Categories(k, [1, 2, 3], True) for k in kinds] + [Categories(pa.string(), ["a", "b", "c"], True)]
    columns = all_widths() | {
        str(d.kind): (d, rng.integers(0, d.size, 70_000).astype(np.uint8)) for d in domains
    }
    columns["null"] = numbers(3, True), np.full(70_000, 3, np.uint8)
    session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        for codec in CODECS:
            monkeypatch.setattr(pages, "CODEC", codec)
            data = written(pages.PagesWriter, columns)
            (tmp_path / f"{codec}.parquet").write_bytes(data)
            found = session.read.parquet(str(tmp_path / f"{codec}.parquet")).coalesce(1).toArrow()
            expected = by_pyarrow(data)
            assert found.cast(expected.schema).equals(expected)
    finally:
        session.conf.unset("spark.sql.parquet.enableVectorizedReader")
