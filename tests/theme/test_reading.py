from docutils import nodes
from docutils.utils import new_document

from theme.paying_attention.reading import LINES, WORDS, minutes


def document(*parts: nodes.Node) -> nodes.document:
    made = new_document("a test")
    made += parts
    return made


def prose(words: int, **options: list[str]) -> nodes.paragraph:
    return nodes.paragraph("", "word " * words, **options)


def test_prose_code_and_figures_take_their_time():
    code = nodes.literal_block("", "x = 1\n\n" * (3 * LINES))
    assert minutes(document(prose(10 * WORDS))) == 10
    assert minutes(document(prose(10 * WORDS), code)) == 13
    assert minutes(document(prose(10 * WORDS), *(nodes.image() for _ in range(20)))) == 12


def test_exercises_outputs_and_folded_code_do_not_count():
    for aside in ("exercise", "solution", "cell_output"):
        assert minutes(document(prose(5 * WORDS), nodes.container("", prose(9 * WORDS), classes=[aside]))) == 5
    code = nodes.container("", nodes.literal_block("", "x = 1\n" * (9 * LINES)), classes=["cell_input"])
    folded = nodes.container("", code, classes=["cell", "tag_hide-input"])
    assert minutes(document(prose(5 * WORDS), folded)) == 5
    assert minutes(document(prose(5 * WORDS), nodes.container("", code.deepcopy(), classes=["cell"]))) == 14


def test_a_picture_that_a_cell_drew_counts_once():
    drawn = nodes.container("", *(nodes.image() for _ in range(3)), prose(9 * WORDS), classes=["cell_output"])
    cells = [nodes.container("", drawn.deepcopy(), classes=["cell"]) for _ in range(10)]
    assert minutes(document(prose(5 * WORDS), *cells)) == 6


def test_nothing_takes_a_minute():
    assert minutes(document()) == 1
