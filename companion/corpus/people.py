"""Who and what takes part in a scene, with the pronouns that refer back to them."""

from __future__ import annotations

from companion.corpus.grammar import Scene
from companion.corpus.words import GROUPS, MEN, PLURAL_THINGS, SINGLE_THINGS, TRADES, WOMEN

__all__: list[str] = []

SHE = {"she": "she", "him": "her", "her": "her", "self": "herself"}
HE = {"she": "he", "him": "him", "her": "his", "self": "himself"}
THEY = {"she": "they", "him": "them", "her": "their", "self": "themselves"}
IT = {"she": "it", "him": "it", "her": "its", "self": "itself"}


def pronouns(scene: Scene, name: str, words: dict[str, str]) -> None:
    for form, word in words.items():
        scene.bind(f"{name}.{form}", word)


def person(scene: Scene, name: str, *, groups: bool = False) -> None:
    """Somebody who is not in the scene yet; a few are several, with all that follows for verbs and pronouns."""
    while True:
        kind = scene.random.below(8)
        many = groups and kind == 0
        if many:
            words, forms = scene.pick(GROUPS), THEY
        elif kind == 1:
            words, forms = f"the {scene.pick(TRADES)}", scene.pick((SHE, HE))
        elif kind % 2:
            words, forms = scene.pick(WOMEN), SHE
        else:
            words, forms = scene.pick(MEN), HE
        # Two in a scene differ in their pronoun, so that "she" is one of them.
        others = [scene.bound.get(f"{other}.she") for other in "AB" if other != name]
        if words not in scene.bound.values() and forms["she"] not in others:
            break
    scene.bind(name, words, many=many)
    pronouns(scene, name, forms)


def thing(scene: Scene) -> None:
    many = scene.random.below(3) == 0
    scene.bind("T", "[{sort}|{colour}|{size}] " + scene.pick(PLURAL_THINGS if many else SINGLE_THINGS), many=many)
    pronouns(scene, "T", THEY if many else IT)


def thanks(scene: Scene) -> None:
    scene.say(
        "{A} <thank> {B} and <give> {B.him} [some {food}|a cup of {drink}|a {colour} ribbon|{count} walnuts].",
        "{A} and {B} <have Many> {drink} together and <talk Many> about {subject}.",
        "{^B.she} <laugh B>, and {A} <promise> {B.him} [a pot of {food}|a {size} {single}|to {hobby} with {B.him}].",
        "{^when}, {A} <bring> {B} a {sort} {single}, because {B.she} <have B> been so kind.",
    )
