"""Text that is not UTF-8 is read rightly, with its words shown to a person, or refused."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline import errors
from preprocessing.schema_inference import detect_encoding

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Rows of people and places, as tables have them: little text and no sentences.
ROWS = {
    "German": "name,stadt\nMüller,Köln\nGroß,Düsseldorf\n",
    "French": "nom,ville\nHélène,Besançon\nNoël,Nîmes\n",
    "Finnish": "nimi,kaupunki\nMäkinen,Jyväskylä\nHämäläinen,Hyvinkää\n",
    "Spanish": "nombre,ciudad\nNúñez,Cáceres\nMuñoz,León\n",
    "Polish": "nazwisko,miasto\nWójcik,Łódź\nŻak,Kraków\nKozioł,Częstochowa\nŚwiątek,Gdańsk\n",
    "Czech": "jméno,město\nDvořák,Děčín\nŠťastný,České Budějovice\nRůžička,Plzeň\n",
    "Hungarian": "név,város\nSzűcs,Győr\nKovács,Pécs\nTóth,Köröshegy\n",
    "Turkish": "ad,şehir\nYılmaz,İstanbul\nŞahin,Muğla\nÖztürk,Çanakkale\nIşık,Ağrı\n",
    "Romanian": "nume,oraş\nIonuţ,Timişoara\nCătălin,Braşov\nBâlă,Constanţa\n",
    "Latvian": "a,b\nJēkabpils,Liepāja\nCēsis,Jūrmala\nRēzekne,Rīga\n",
    "Romanian places": "a,b\nTimişoara,Galaţi\nPloieşti,Constanţa\nIaşi,Bistriţa\n",
    "Lithuanian": "vardas,miestas\nŽydrūnas,Šiauliai\nRūta,Panevėžys\nČesnauskas,Kėdainiai\n",
    "Icelandic": "nafn,staður\nSigurður,Höfn\nÞóra,Ísafjörður\nÆvar,Mosfellsbær\n",
    "countries": "x,y\nMünchen,Málaga\nBesançon,Malmö\nKøge,São Paulo\nÍsafjörður,Ñuñoa\n",
    "units": "x,y\n3 m²,20 °C\n5 €,1 µm\n",
    "Russian": "имя,город\nИван,Москва\nМария,Санкт-Петербург\n",
    "Greek": "όνομα,πόλη\nΓιώργος,Αθήνα\nΜαρία,Θεσσαλονίκη\n",
    "Arabic": "اسم,مدينة\nمحمد,القاهرة\nفاطمة,بغداد\n",
    "Thai": "ชื่อ,เมือง\nสมชาย,กรุงเทพ\n",
    "Japanese": "名前,都市\n田中さん,東京\nサトウ,大阪\n",
    "Chinese": "姓名,城市\n王小明,北京\n李华,上海\n",
    "Taiwanese": "姓名,城市\n王小明,臺北\n李華,高雄\n",
    "Korean": "이름,도시\n김철수,서울\n이영희,부산\n",
}


def _found(content: bytes) -> detect_encoding.Encoding:
    return detect_encoding.find(content, "x.csv")


@pytest.mark.parametrize(
    ("rows", "written"),
    [
        *((name, "cp1252") for name in ("German", "French", "Finnish", "Spanish", "units")),
        *((name, "cp1252") for name in ("Icelandic", "countries")),
        *((name, "cp1250") for name in ("Polish", "Czech", "Romanian", "Hungarian")),
        *((name, "iso8859-2") for name in ("Polish", "Czech", "Romanian", "Hungarian")),
        *(("Turkish", name) for name in ("cp1254", "iso8859-9")),
        ("Lithuanian", "cp1257"),
        ("Latvian", "iso8859-4"),
        ("Romanian places", "cp1250"),
        *((name, "latin-1") for name in ("German", "French", "Finnish", "Spanish")),
        *(("Russian", name) for name in ("cp1251", "koi8-r", "iso8859-5", "cp866")),
        ("Greek", "cp1253"),
        ("Greek", "iso8859-7"),
        ("Arabic", "cp1256"),
        ("Thai", "cp874"),
        *(("Japanese", name) for name in ("cp932", "shift_jis", "euc_jp", "iso2022_jp")),
        *(("Chinese", name) for name in ("gb2312", "gbk", "gb18030")),
        ("Taiwanese", "big5"),
        ("Korean", "euc_kr"),
        ("Korean", "cp949"),
    ],
)
def test_text_is_read_as_it_was_written(rows, written):
    content = (ROWS[rows] * 20).encode(written)
    found = _found(content)
    assert content.decode(found.name) == ROWS[rows] * 20
    assert any(word in ROWS[rows] for word in found.words)
    assert f"the text is not UTF-8 and taken for {found.name}, which makes '" in found.remark
    assert found.remark.endswith("; if that is wrong, change data.csv.encoding")


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("written", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_what_is_certain_needs_no_remark(rows, written):
    content = ROWS[rows].encode(written)
    found = _found(content)
    assert content.decode(found.name).removeprefix("\ufeff") == ROWS[rows]
    assert not found.remark


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("written", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_two_or_four_bytes_a_character_without_a_mark(rows, written):
    assert detect_encoding.detect_without_mark((ROWS[rows] * 3).encode(written)) in (written, None)
    assert detect_encoding.detect_without_mark(ROWS["German"].encode(written)) == written


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        b"a,\0\n" * 200,
        b"1,\0\n2,3\n" * 200,
        bytes(range(256)),
        b"\0\0\x80\x3f" * 100,
        bytes(4096),
    ],
)
def test_what_has_zero_bytes_for_another_reason(content):
    assert detect_encoding.detect_without_mark(content) is None


@pytest.mark.parametrize(
    ("rows", "written"),
    [("Jiří,Plzeň\nTomáš,Brno\n", "cp1250"), ("Szűcs,Eger\nKovács,Pécs\n", "cp1250")],
)
def test_the_words_of_others_are_shown_where_they_differ(rows, written):
    """Between encodings of Latin letters little text does not decide: a person does."""
    found = _found((rows * 20).encode(written))
    assert found.name == "cp1252"
    assert dict(found.others)[written][0] in rows
    assert f"({written} makes '" in found.remark


def test_words_that_all_read_alike_are_not_those_that_are_shown():
    found = _found(("Tomáš,Pécs\n" * 50 + "Plzeň,Jiří\n" * 3).encode("cp1250"))
    assert "Plzeň" in dict(found.others)["cp1250"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a,b\n\x81,1\n",
            r"^'x\.csv': is not UTF-8, and its encoding is in doubt \(cp\d+ makes '.' of it; .*\); "
            r"convert it by iconv -f ENCODING -t UTF-8, with the one of CP\d+, .* that is right$",
        ),
        (bytes(range(256)), "is not UTF-8, nor text in another known encoding; write it as UTF-8$"),
        (
            (ROWS["Polish"] * 20).encode("cp1250") + b"\x81\x83\x88\x90\x98\x81\x8f,x\xd8\n" * 2,
            r"another known encoding; write it as UTF-8, such as by iconv -f CP1250 -t UTF-8 -c,",
        ),
    ],
)
def test_where_nothing_speaks_for_an_encoding_text_is_refused(content, message):
    with pytest.raises(errors.DataError, match=message):
        _found(content)


@pytest.mark.parametrize(
    ("most", "written", "others", "other", "message"),
    [
        (
            "German",
            "cp1252",
            "Russian",
            "cp1251",
            "as cp1252; as cp1252, others have 'Èâàí'",
        ),
        ("Russian", "cp1251", "German", "cp1252", "as cp1251; as cp1251, others have 'Mьller'"),
        ("Greek", "cp1253", "German", "cp1252", "as cp1253; as cp1253, others have 'Mόller'"),
        (
            "Hungarian",
            "cp1250",
            "German",
            "utf-8",
            "as cp1250; 2 of 62 are UTF-8, such as 'Müller,Köln'",
        ),
    ],
)
def test_lines_in_several_encodings_are_refused(most, written, others, other, message):
    lines = ROWS[most].splitlines(keepends=True)[1:] * 20
    more = [line for line in ROWS[others].splitlines(keepends=True)[1:] if not line.isascii()]
    content = b"x,y\n" + "".join(lines).encode(written) + "".join(more).encode(other)
    message = f"'x.csv': its lines are in several encodings: some have .*{message}"
    with pytest.raises(errors.DataError, match=message):
        _found(content)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\nä,1\n".encode() + b"\xff,2\n",
        b"a,b\n" + "ä,1\n".encode() * 20 + b"\x81\xfe,2\n" * 80,
        b"a,b\n" * 200 + b"\x81,1\n",
        "a,ä".encode()[:-1],
        "a,b\n日本".encode()[:-1],
    ],
)
def test_damage_does_not_make_another_encoding(content):
    assert _found(content) == detect_encoding.UTF_8


def test_one_name_in_a_large_table_is_enough():
    found = _found(b"name,x\n" + b"plain,1\n" * 5000 + "Müller,1\n".encode("cp1252"))
    assert (found.name, found.words, found.few) == ("cp1252", ("Müller",), True)


@pytest.mark.parametrize(
    "content",
    [
        "Müller," + "x" * (1 << 20),
        "é" + "x" * (1 << 20),
        "x" * (1 << 20) + " Müller",
        ",".join(f"c{n}" for n in range(50_000)) + "\n" + "plain," * 50_000 + "Müller,",
    ],
    ids=["cell", "word", "end", "columns"],
)
def test_long_lines_take_no_longer_than_short_ones(content):
    """A search for words that starts again at each letter would take hours."""
    found = _found(content.encode("cp1252"))
    assert found.name == "cp1252" and found.words[0].startswith(("Müller", "éxx"))


@given(st.binary(max_size=300))
@example(b"\x1b$")
@example(b"\xff")
@example(b"\n\x80")
def test_any_bytes_are_decoded_or_refused(content):
    try:
        found = _found(content)
    except errors.DataError as refused:
        assert "\n" not in str(refused)
    else:
        assert "\n" not in found.remark
        if found.words:
            content.decode(found.name, "strict" if not found.few else "replace")


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("utf-16", "UTF-16"),
        ("cp1252", "CP1252"),
        ("utf-16-le", "UTF-16LE"),
        ("iso8859_15", "ISO-8859-15"),
        ("iso2022_jp", "ISO-2022-JP"),
        ("koi8_r", "KOI8-R"),
        ("euc_jp", "EUC-JP"),
        ("mac_roman", "MACINTOSH"),
    ],
)
def test_names_are_those_of_iconv(name, called):
    assert detect_encoding.build_conversion(name) == f"iconv -f {called} -t UTF-8"


def test_the_library_is_imported_for_other_text_only(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\nä,1\n" * 10)
    (tmp_path / "b.csv").write_bytes("a,b\nä,1\n".encode("cp1252") * 10)
    code = (
        "import sys\n"
        "from preprocessing.schema_inference import detect_format\n"
        f"for name in 'ab':\n"
        f"    detect_format.sniff({str(tmp_path)!r} + f'/{{name}}.csv')\n"
        "    print('charset_normalizer' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr


@pytest.mark.parametrize(
    ("places", "written"),
    [
        ("Москва Казань Самара Омск Уфа Пермь Тюмень Тверь", "koi8-r"),
        ("München Köln Düsseldorf Nürnberg Fürth Würzburg Gießen", "cp850"),
    ],
)
def test_of_several_that_fit_none_is_chosen(places, written):
    rows = (f"{place},{n * 0.7}\n" for n, place in enumerate(places.split() * 40))
    content = f"city,y\n{''.join(rows)}".encode(written)
    with pytest.raises(errors.DataError) as refused:
        _found(content)
    assert "in doubt" in str(refused.value) and "iconv -f ENCODING -t UTF-8" in str(refused.value)
