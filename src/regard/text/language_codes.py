"""Language codes: from the ISO 639 and BCP 47 codes in use to those of language identification."""

from __future__ import annotations

import re

_SUBTAG = re.compile(r"[-_]")
# Codes of three letters (ISO 639-2, ISO 639-3 and its parts of macrolanguages, as in FLORES-200),
# and former codes, by the code of two letters.
_OTHER_CODES = """
    af afr | am amh | an arg | ar ara arb | as asm | az aze azj | ba bak | be bel | bg bul | bn ben
    br bre | bs bos | ca cat | cs ces cze | cy cym wel | da dan | de deu ger | dz dzo | el ell gre
    en eng | eo epo | es spa | et est ekk | eu eus baq | fa fas per pes | fi fin | fo fao
    fr fra fre | fy fry | ga gle | gd gla | gl glg | gu guj | ha hau | he heb iw | hi hin | hr hrv
    ht hat | hu hun | hy hye arm | id ind in | ig ibo | is isl ice | it ita | ja jpn | jv jav jw
    ka kat geo | kk kaz | km khm | kn kan | ko kor | ku kur kmr | ky kir | la lat | lb ltz | lg lug
    ln lin | lo lao | lt lit | lv lav lvs | mg mlg plt | mk mkd mac | ml mal | mn mon khk | mr mar
    ms msa may zsm | mt mlt | my mya bur | ne nep npi | nl nld dut | nn nno | no nor nb nob
    oc oci | om orm gaz | or ori ory | pa pan | pl pol | ps pus pbt | pt por | qu que quy
    ro ron rum mo | ru rus | rw kin | sa san | se sme | si sin | sk slk slo | sl slv | sn sna
    so som | sq sqi alb als | sr srp | st sot | sv swe | sw swa swh | ta tam | te tel | tg tgk
    th tha | tk tuk | tl tgl fil | tr tur | tt tat | ug uig | uk ukr | ur urd | uz uzb uzn | vi vie
    vo vol | wa wln | xh xho | yo yor | zh zho chi cmn | zu zul
"""
_TWO_LETTERS = {
    other: code
    for code, *others in map(str.split, re.split("[|\n]", _OTHER_CODES.strip()))
    for other in others
}


def base_language(code: str) -> str:
    """The code of a language without script and region, of two letters if there is one.

    "zh-cn", "zho_Hans" and "cmn" become "zh".
    """
    language = _SUBTAG.split(code.strip().lower(), maxsplit=1)[0]
    return _TWO_LETTERS.get(language, language)
