"""How far rough counts are from exact ones: within 15 % on each kind of text, in Chinese not under by over 10
%.

The texts are not those that the weights were fitted on; `benchmarks/token_counts.py` prints the figures.
"""

from __future__ import annotations

import pytest

from stratalog.tokens.exact import Exact, available
from stratalog.tokens.families import Encoding, Family
from stratalog.tokens.rough import Rough, count_entry, count_text
from stratalog.types import Image, User
from tokens.corpora import DATA, KINDS, SAMPLES, reported

pytestmark = pytest.mark.skipif(
    not available(), reason="quicktok is not installed: pip install 'stratalog[exact]'"
)

WITHIN = 0.15
UNDER_IN_CHINESE = 0.10
ENCODINGS: tuple[Encoding, ...] = ("o200k", "cl100k")
REPORTED = reported() if available() else {}


def check(encoding: Encoding, kind: str, texts: list[str], within: float = WITHIN) -> None:
    exact, rough = Exact(Family(encoding)), Rough(Family(encoding))
    true = sum(map(exact.count_text, texts))
    error = sum(map(rough.count_text, texts)) / true - 1
    assert abs(error) <= within, f"{kind}: {error:+.1%} of {true:,} tokens"
    assert "Chinese" not in kind or error >= -UNDER_IN_CHINESE, f"{kind}: {error:+.1%} of {true:,} tokens"


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_samples(kind: str, encoding: Encoding) -> None:
    """A few hundred tokens of each kind are counted roughly right."""
    check(encoding, kind, [SAMPLES[kind]])


@pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no public data at {DATA}")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", REPORTED, ids=lambda name: ", ".join(name))
def test_public_data(name: tuple[str, str], encoding: Encoding) -> None:
    """So is the half of the public data that nothing was fitted on."""
    check(encoding, name[0], REPORTED[name])


@pytest.mark.parametrize("encoding", ["llama3", "qwen3"])
@pytest.mark.parametrize("kind", KINDS)
def test_open_models(kind: str, encoding: Encoding) -> None:
    """The vocabularies of open models are met a little less closely: within a fifth."""
    check(encoding, kind, [SAMPLES[kind]], 0.2)


@pytest.mark.parametrize(
    "hundred",
    [
        "上周五下午我们在三楼的小会议室里开了一次复盘会参加的人不多只有产品后端和测试的几位同事大家先把这次上线出现的问题"
        "按时间顺序列在白板上然后一条一条地讨论原因最严重的是订单状态更新得太慢有些用户付",
        "颱風過境後的第三天我和外婆一起回到山上的老屋道路有好幾處被土石掩埋工程車正在清理我們只好把車停在橋頭背著背包"
        "慢慢走上去外婆走得比我還快一面走一面指給我看這裡從前是郵局那邊是她小時候讀書",
    ],
    ids=["simplified", "traditional"],
)
def test_s85_a_hundred_chinese_characters(hundred: str) -> None:
    """S85: about a token a character, never the quarter that four characters a token would give."""
    text = hundred[:100]
    assert len(text) >= 90
    exact = Exact(Family("o200k")).count_text(text)
    assert 0.85 * exact <= count_text(text) <= 1.25 * exact
    assert count_text(text) > 2 * len(text) / 4


def test_s86_images_do_not_hide_the_text() -> None:
    """S86: 45 images of 4 MB cost 45 times one price, by any counter, and no token of their bytes."""
    photo = Image(media_type="image/png", data=b"\x00" * 4_000_000)
    for count in (count_entry, Exact(Family("o200k")).count_entry):
        one = count(User(content=(photo,)))
        assert 0 < one < 5_000
        assert count(User(content=(photo,) * 45)) - count(User(content=(photo,) * 44)) == one - count(User())
