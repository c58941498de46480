"""Odd little files as people have them: the examples of csvkit that have at most 100 bytes.

From https://github.com/wireservice/csvkit (examples, commit ba8033d), MIT License, Copyright (c) 2016
Christopher Groskopf and contributors.
"""

from __future__ import annotations

EXAMPLES: dict[str, bytes] = {
    "bad.csv": (
        b'column_a,column_b,column_c\n1,27,,"I\'m too long!"\n,"I\'m too short!"\n0,mixed types.... uh oh,17\n'
    ),
    "bad_skip_lines.csv": (
        b"\n\n\ncolumn_a,column_b,column_c\n1,27,,\"I'm too lon"
        b'g!"\n,"I\'m too short!"\n0,mixed types.... uh oh,17\n'
    ),
    "blanks.csv": b"a,b,c,d,e,f\n,NA,N/A,NONE,NULL,.\n",
    "blanks_converted.csv": b"a,b,c,d,e,f\n,,,,,\n",
    "date_like_number.csv": b"a\n4.5\n",
    "dummy.csv": b"a,b,c\n1,2,3\n",
    "dummy.tsv": b"a\tb\tc\n1\t2\t3\n",
    "dummy2.csv": b"a,b,c\n1,2,3\n",
    "dummy3.csv": b"a,b,c\n1,2,3\n1,4,5\n",
    "dummy_col_shuffled.csv": b"b,c,a\n2,3,1",
    "dummy_col_shuffled_ragged.csv": b"b,c,a,d\n2,3,1,4\n",
    "empty.csv": b"\n",
    "foo1.csv": b"id,name,age\n1,Jake,22\n2,Howard,21\n",
    "foo2.csv": b"id,name,age\n3,Liz,20\n4,Tim,21\n",
    "join_a.csv": b"a,b,c\n1,b,c\n2,b,c\n3,b,c\n",
    "join_a_short.csv": b"a,b,c\n1,b\n2\n3,b,c\n",
    "join_b.csv": b"a,b,c\n1,b,c\n1,b,c\n4,b,c\n",
    "join_no_header_row.csv": b"d,e,f\n1,b,c\n1,b,c\n4,b,c\n",
    "join_short.csv": b"a,b,c,b2,c2\n1,b,,b,c\n1,b,,b,c\n",
    "mac_newlines.csv": b'a,b,c\r1,2,3\r"Once upon\ra time",5,6\r',
    "no_header_row.csv": b"1,2,3\n",
    "no_header_row2.csv": b"4,5,6\n",
    "no_header_row3.csv": b"1,2,3\n4,5,6\n",
    "null_byte.csv": b"a,b,c\n\x00,2,3\n",
    "optional_quote_characters.csv": b'a,b,c\n"1","2","3"\n',
    "sniff_limit.csv": b"a;b;c\n1;2;3\n",
    "sort_ints_nulls.csv": b"a,b,c\n1,2,3\n4,,6\n5,1,7\n",
    "test_date_format.csv": b"a\n02/01/2014\n31/12/2012\n",
    "test_date_format_converted.csv": b"a\n2014-01-02\n2012-12-31\n",
    "test_empty_columns.csv": b"a,b,c,,\na,,,,\n,,c,\n,,,,\n",
    "test_empty_columns_long_row.csv": b"a,b,c\n,,,\n",
    "test_empty_columns_short_row.csv": b"a,b,c\n,\n",
    "test_extra_header.csv": b"a,b,c,d\n1,2,3\n",
    "test_header_newline.csv": b'"\t\n\x0b\x0c\r start \t\n\x0b\x0c\r end \t\n\x0b\x0c\r",b,c\nd,e,f\n',
    "test_ignore_case.csv": (
        b"a,b,c\n100,2003-01-01,a\n100,2003-01-01,A\n20,2002-01-01,b\n20,2001-01-01,c\n3,2009-01-01,d\n"
    ),
    "test_join_short_rows.csv": b"a,b,c\n1,cat\ndog,c\n3,b,c\n",
    "test_latin1.csv": b"a,b,c\n1,2,3\n4,5,\xa9",
    "test_literal_order.csv": b"a,b\n192,1\n27,2\n3,3\n",
    "test_locale.csv": b'a,b,c\n"1,7","200.000.000",\n',
    "test_locale_converted.csv": b"a,b,c\n1.7,200000000,\n",
    "test_no_leading_zeroes.csv": b"a,b,c\n01,00.11,0.1\n",
    "test_numeric_date_format.csv": b"a\n20140102\n20121231\n",
    "test_precision.csv": b"a\n1.234567",
    "test_skip_lines.csv": b"\n\n\na,b,c\n1,2,3\n",
    "test_utf16_big.csv": (
        b"\xfe\xff\x00a\x00,\x00b\x00,\x00c\x00\n\x001\x00,\x002\x00,\x003\x00\n\x004\x00,\x005\x00,\x02\xa4"
    ),
    "test_utf16_little.csv": (
        b"\xff\xfea\x00,\x00b\x00,\x00c\x00\n\x001\x00,\x002\x00,\x003\x00\n\x004\x00,\x005\x00,\x00\xa4\x02"
    ),
    "test_utf8.csv": b"foo,bar,baz\n1,2,3\n4,5,\xca\xa4",
    "test_utf8_bom.csv": b"\xef\xbb\xbffoo,bar,baz\n1,2,3\n4,5,\xca\xa4\n",
    "testfixed_schema_no_inference.csv": b"column,start,length\na,0,6\nb,6,4\nc,10,2\n",
    "testjson_multiline_converted.csv": b"a,b,d\n2,3,\n,2,4\n",
    "testxls_unicode_converted.csv": b"a,b,c\n1.0,2.0,3.0\n",
    "testxlsx_unicode_converted.csv": b"a,b,c\n1,2,3\n",
}
DELIMITERS = {"dummy.tsv": "\t", "sniff_limit.csv": ";"}
"""Those in which it is no comma."""
ENCODINGS = {"test_latin1.csv": "latin-1", "test_utf16_big.csv": "utf-16", "test_utf16_little.csv": "utf-16"}
