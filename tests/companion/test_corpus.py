"""The book's text is the same everywhere, says nothing twice, and keeps its facts straight."""

import hashlib
import re
import time
import zlib

import pytest

from companion.corpus import corpus, days, facts, sentences, split_paragraphs
from companion.corpus.grammar import Scene, conjugate, in_words, plural, quantity, tidy
from companion.corpus.words import IRREGULAR_VERBS, WORDS
from companion.splitmix import SplitMix
from companion.tasks import char_corpus

# A stored model was trained on this text, and chapters quote it: it may change only on purpose.
SHA256 = "ec00751fb3ee21a427872c7387be7e67c7ec79635d841977dcf3a4903cd11c42"
NUMBERS = {in_words(number): number for number in range(1, 100)}


@pytest.fixture(scope="module")
def text() -> str:
    return corpus()


def test_it_is_the_same_to_the_byte(text: str):
    assert hashlib.sha256(text.encode("ascii")).hexdigest() == SHA256
    assert 400_000 <= len(text) < 401_000


def test_it_takes_less_than_a_second():
    start = time.process_time()
    made = corpus.__wrapped__(400_000, 1)
    assert time.process_time() - start < 1
    assert corpus(400_000, 1) == made != corpus()


def test_no_sentence_stands_in_it_twice(text: str):
    # Cut anew, and more crudely, than the grammar does it.
    found = [part for part in re.split(r'(?<=[.!?])\s+(?=[A-Z"])|\n+', text.replace('."', '".')) if part]
    assert len(found) > 5_000
    assert len(set(found)) / len(found) > 0.995
    assert len(set(sentences(text))) == len(sentences(text)) > 5_000
    paragraphs = text.strip().split("\n\n")
    assert len(set(paragraphs)) == len(paragraphs) > 800


def test_it_has_more_order_than_its_words_and_is_no_list_of_a_few(text: str):
    words = text.split()
    order = SplitMix(0).permutations(1, len(words))[0].tolist()
    shuffled = " ".join(words[i] for i in order)

    def ratio(x: str) -> float:
        return len(zlib.compress(x.encode(), 9)) / len(x)

    assert 0.2 < ratio(text) < 0.8 * ratio(shuffled)
    assert len(set(words)) > 2_000
    five = list(zip(*(words[i:] for i in range(5)), strict=False))
    assert len(set(five)) / len(five) > 0.5


def test_the_split_leaks_nothing(text: str):
    train, validation = split_paragraphs(text)
    assert not set(sentences(train)) & set(sentences(validation))
    assert len(validation) == pytest.approx(len(text) / 10, rel=0.1)
    assert sorted((train.strip() + "\n\n" + validation.strip()).split("\n\n")) == sorted(text.strip().split("\n\n"))
    assert set(validation) <= set(train)
    # A sentence of the validation in other words stays in the training; in these words, it does not.
    assert not any(sentence in train for sentence in sentences(validation))


def test_it_is_written_properly(text: str):
    assert re.fullmatch(r"[A-Za-z \n.,:?\"'-]+", text)
    assert "  " not in text
    assert "\n\n\n" not in text
    assert not re.search(r"[{}<>\[\]|]| [.,?]|[a-z]\.[a-z]|,,|\.\.", text)
    for paragraph in text.strip().split("\n\n"):
        assert paragraph[0].isupper() or paragraph[0] == '"'
        assert re.search(r'[.?]"?$', paragraph)
        assert paragraph.count('"') % 2 == 0
        for sentence in sentences(paragraph):
            assert re.match(r'"?[A-Z]', sentence), sentence


def test_articles_and_numbers_agree(text: str):
    assert not re.search(r"\b[Aa] [aeiouAEIOU]", text)
    assert not re.search(r"\b[Aa]n [^aeiouAEIOU]", text.replace("an hour", ""))
    assert not re.search(r"\b(they|They|we|We) (is|was|has|goes|looks)\b", text)
    assert not re.search(r"\b(she|he|She|He) (are|were|have|go|look)\b", text)
    assert not re.search(r"\b(cherrys|loafs|fishs|gooses|ponys|peachs)\b", text)
    for number in list(NUMBERS)[1:]:
        assert not re.search(rf"\b{number} (apple|pear|egg|coin|goat|duck|candle)\b", text)


def test_tenses_do_not_mix_within_a_paragraph(text: str):
    """Outside of quotes; one tense's forms of the commonest verbs never meet the other's."""
    past, present = r"\b(was|were|had|went|gave|found|asked|said)\b", r"\b(is|are|has|goes|gives|finds|asks|says)\b"
    seen = set()
    for paragraph in text.split("\n\n"):
        told = re.sub(r'"[^"]*"', "", paragraph)
        told = told.replace("had been so kind", "").replace("has been so kind", "")
        both = bool(re.search(past, told)), bool(re.search(present, told))
        assert both != (True, True), paragraph
        seen.add(both)
    assert {(True, False), (False, True)} <= seen


def scenes(tell, count: int = 300) -> list[str]:
    random, seen, told = SplitMix(9), set(), []
    for _ in range(count):
        scene = Scene(random, seen)
        tell(scene)
        told.append(" ".join(scene.said))
    return told


def counts(sentence: str) -> list[int]:
    for when in WORDS["past"]:  # "one summer" counts nothing
        sentence = re.sub(re.escape(when), "", sentence, flags=re.IGNORECASE)
    words = re.findall(r"[a-z]+(?:-[a-z]+)?", sentence.lower())
    return [NUMBERS.get(word, 0) for word in words if word in NUMBERS or word == "no"]


def test_sums_are_right():
    """Who has how many is followed through the paragraph, from its words alone."""
    for paragraph in scenes(facts.counting):
        parts = sentences(paragraph)
        mine, yours = counts(parts[0])[:2]
        given = counts(parts[1])[0]
        after = sorted(counts(parts[2])[:2])
        assert after == sorted((mine - given, yours + given)), paragraph
        total = re.search(r"make ([a-z-]+),", paragraph)
        if total:
            assert NUMBERS[total.group(1)] == mine + yours


def test_prices_are_right():
    for paragraph in scenes(facts.selling):
        price = re.search(r'"([A-Z][a-z-]+) coins each|One costs ([a-z-]+) coins', paragraph)
        assert price, paragraph
        each = NUMBERS[(price.group(1) or price.group(2)).lower()]
        paid = re.search(r"(?:and (?:pays?|paid)|for|gives? (?:him|her)|gave (?:him|her)) ([a-z-]+) coins", paragraph)
        bought = re.search(r"(?:buys|bought|So [\w ]+ (?:takes|took)|Then I take) ([a-z-]+)", paragraph)
        assert paid, paragraph
        assert bought, paragraph
        assert NUMBERS[paid.group(1)] == each * NUMBERS[bought.group(1)], paragraph


def test_the_tallest_is():
    for paragraph in scenes(facts.who_is_taller):
        pairs = re.findall(r"([A-Z][a-z]+) (?:is|was) (?:[a-z]+er) than ([A-Z][a-z]+)", paragraph)
        (a, b), (c, d) = pairs[:2]
        middle = ({a, b} & {c, d}).pop()  # one is compared with both
        assert b == d == middle
        said = re.search(r'(?:It is|That is) ([A-Z][a-z]+),"|So ([A-Z][a-z]+) (?:is|was) the', paragraph)
        if said:
            stems = "tall|short|old|young|fast|slow|strong|weak|rich|poor|loud|quiet"
            stem = re.search(rf"the ({stems})est", paragraph).group(1)
            (winner,) = {x for x, _ in pairs[:2] if re.search(rf"{x} (?:is|was) {stem}er than", paragraph)}
            assert winner == (said.group(1) or said.group(2)), paragraph


def test_what_is_lost_is_found_where_it_was_said_to_be():
    for paragraph in scenes(facts.lost):
        quotes = re.findall(r'"([^"]*)"', paragraph)
        answers = [quote for quote in quotes[1:] if quote]
        spots = [spot for spot in WORDS["spot"] if any(spot in quote for quote in answers)]
        assert spots, paragraph
        after = paragraph[paragraph.rindex('"') :]
        assert (
            any(spot in after for spot in spots) or "found the" in after or "finds the" in after or "find the" in after
        )


@pytest.mark.parametrize("tell", [days.journey, days.trade, days.letter, days.lesson, days.meal, days.place])
def test_every_scene_tells_enough(tell):
    for paragraph in scenes(tell, 100):
        assert len(sentences(paragraph)) >= 4
        assert 150 < len(paragraph) < 1_200


def test_verbs():
    forms = {
        "try": ("tried", "tries"),
        "watch": ("watched", "watches"),
        "like": ("liked", "likes"),
        "play": ("played", "plays"),
    }
    for verb, (past, present) in forms.items():
        assert conjugate(verb, past=True, many=False) == conjugate(verb, past=True, many=True) == past
        assert conjugate(verb, past=False, many=False) == present
        assert conjugate(verb, past=False, many=True) == verb
    be = [conjugate("be", past=past, many=many) for past in (True, False) for many in (False, True)]
    assert be == ["was", "were", "is", "are"]
    assert [conjugate("can", past=past, many=True) for past in (True, False)] == ["could", "can"]
    assert conjugate("go", past=False, many=True) == "go"
    assert all(len(forms) == 2 for forms in IRREGULAR_VERBS.values())


def test_numbers_and_plurals():
    assert [in_words(n) for n in (1, 12, 20, 21, 99)] == ["one", "twelve", "twenty", "twenty-one", "ninety-nine"]
    assert [plural(noun) for noun in ("egg", "box", "goose", "fish")] == ["eggs", "boxes", "geese", "fish"]
    assert quantity(1, "loaf") == "one loaf"
    assert quantity(2, "loaf") == "two loaves"


def test_tidying():
    assert tidy("a old house. it can not be") == "An old house. It cannot be"
    assert tidy('"where is it?" she said.') == '"Where is it?" she said.'


def test_characters_are_windows_of_the_text(text: str):
    train, validation = split_paragraphs(text)
    for held_out, part in ((False, train), (True, validation)):
        task = char_corpus(30, held_out=held_out)
        assert task.text == part
        assert task.decode(task.ids) == part
        batch = task.batch(50, seed=1)
        assert batch.ids.shape == (50, 31)
        assert batch.real.all()
        assert all(task.decode(row) in part for row in batch.ids)
        assert task.decode(task.encode("Anna sang.")) == "Anna sang."
    assert char_corpus().vocabulary.symbols == char_corpus(held_out=True).vocabulary.symbols


def test_characters_of_a_text_of_your_own():
    own = "\n\n".join("abcdefghij") + "\n"
    task = char_corpus(3, text=own)
    assert task.text == "\n\n".join("abcdefghi") + "\n"
    assert char_corpus(1, text=own, held_out=True).text == "j\n"
    # The last window ends with the text: 25 letters, windows of 4 begin at 0 to 21.
    starts = {task.decode(row) for row in task.batch(2_000).ids}
    assert len(task.ids) == 26
    assert task.text[-4:] in starts
    assert task.text[:4] in starts
