"""Scenes whose facts can be checked: what is where, sums, prices, who is the tallest. Written for the book."""

from __future__ import annotations

from companion.corpus.grammar import Scene, in_words, plural, quantity
from companion.corpus.people import person, thanks, thing
from companion.corpus.words import COUNTED, HERD, MEN, WOMEN

__all__: list[str] = []


def lost(scene: Scene) -> None:
    """Somebody looks for something, and finds it where another said it was."""
    person(scene, "A", groups=True)
    person(scene, "B")
    thing(scene)
    scene.bind("where", "{spot} in {room}")
    scene.say(
        "{when} {A} <can> not find {A.her} {T}.",
        "{A} <lose> {A.her} {T} {when}.",
        "{when} {A.her} {T} <be T> gone, and {A} <look> for {T.him} everywhere.",
        "{A} <need> the {T} {when}, but nobody in {town} <know It> where {T.she} <be T>.",
    )
    scene.say(
        "First {A.she} <look> [in|behind|near] {room}, then {A.she} <go> to {place}.",
        "{^A.she} <look> {spot} and {spot}, but the {T} <be T> not there.",
        "{^A.she} <ask> the {trade}, who <think It> that the {T} <be T> at {place}.",
        "{^A.she} <search> {room} {how}, and then {room} too.",
    )
    if scene.random.below(2):
        scene.say(
            "{^A.she} <be> [{mood}|{mood} and {mood}], because the {T} [<be T> a present from {town}|<belong T> to "
            "the {trade}].",
            "Without {A.her} {T} {A.she} <can> not [go to {place}|work in {room}|{hobby}].",
        )
    scene.say(
        '"Have you seen my {T}?" {A} <ask> {B}.'
        if "A" not in scene.many
        else '"Have you seen our {T}?" {A} <ask> {B}.',
        '"[Where could the {T} be|Do you know where the {T} <=be T>]?" {A} <ask> {B} [at {place}|in {room}|{how}].',
    )
    scene.say(
        '"[I think|I believe|I am sure] {T.she} <=be T> {where}," {B} <say B> {how}.',
        '"Look {where}," <say B> {B}, "I saw {T.him} there [{present_day}|on my way to {place}]."',
        '"I put {T.him} {where}," {B} <answer B>, "so that nobody would [break|take|lose] {T.him}."',
    )
    scene.say(
        "{A} <go> to look, and there the {T} <be T>, {where}.",
        "So {A} <look> {where}, and {A.she} <find> the {T} [{how}|at last|with {B.her} help].",
        "{A} <run> home and <find> {T.him} {where}, [dusty|cold|wet] but not broken.",
    )
    thanks(scene)


def counting(scene: Scene) -> None:
    """Things change hands, and the sums are right."""
    person(scene, "A")
    person(scene, "B")
    noun = scene.pick(COUNTED)
    mine, yours = scene.random.below(17) + 3, scene.random.below(12)
    given = scene.random.below(mine - 1) + 1
    things = "{colour} " + plural(noun) if scene.random.below(2) else plural(noun)
    scene.bind("things", things)
    adjective = scene.bound["things"].removesuffix(plural(noun))
    scene.say(
        f"{{A}} <have> {in_words(mine)} {{things}} and {{B}} <have B> {in_words(yours)}.",
        f"{{when}} {{A}} <have> {in_words(mine)} {{things}} in {{A.her}} [basket|bag|pocket], and {{B}} <have B> "
        f"{in_words(yours)}.",
        f"At {{place}} {{A}} <find> {in_words(mine)} {{things}}, while {{B}} <find B> {in_words(yours)}.",
    )
    gift = f"{in_words(given)} {adjective}{noun if given == 1 else plural(noun)}"
    scene.say(
        f"{{A}} <give> {gift} to {{B}}, [{{how}}|near {{place}}|in {{room}}].",
        f'"[Please take|Here, take|You may have] {in_words(given)} of mine," {{A}} <say> to {{B}} [at {{place}}|in '
        f"{{room}}|{{how}}].",
        f"Because {{B}} <be B> {{mood}}, {{A}} <hand> {{B.him}} {gift}.",
    )
    left, now = mine - given, yours + given
    scene.say(
        f"So {{A}} <have> {in_words(left)} left, and {{B}} <have B> {quantity(now, noun)} [in all|now|altogether].",
        f"Then {{B}} <have B> {in_words(now)} {plural(noun) if now != 1 else noun}, and {{A}} <keep> {in_words(left)} "
        f"for {{A.self}}.",
    )
    both = left + now
    if scene.random.below(2):
        scene.say(
            f'"Together we still have {quantity(both, noun)}," {{B}} <say B> {{how}}.',
            f'"{in_words(left)} and {in_words(now)} make {in_words(both)}," <say> {{A}}, who <like> to count '
            f"{{things}}.",
            f"{{^B.she}} <count B> {{things}} {{how}}: {quantity(both, noun)} [in {{room}}|at {{place}}].",
        )
    if scene.random.below(2):
        lost_ones = scene.random.below(now) + 1
        scene.say(
            f"On the way to {{place}} {{B}} <lose B> {in_words(lost_ones)} of them, so that {{B.she}} <have B> "
            f"{in_words(now - lost_ones)}.",
            f"{{B}} <sell B> {in_words(lost_ones)} of them to the {{trade}} and <have B> {in_words(now - lost_ones)} "
            f"when {{B.she}} <come B> home.",
        )
    scene.say(
        "With the rest {A} <want> to make {food} [for the {trade}|for {A.her} cousin in {town}|{when}]."
        if noun in {"apple", "pear", "plum", "peach", "cherry", "potato", "tomato", "onion", "carrot"}
        else "{A} <put> the rest {spot} in {room}.",
        "{A} and {B} <be Many> both {mood}, and they <talk Many> about {subject}.",
        "{^A.she} <walk> home by way of {place}, {mood} and {mood}.",
    )


def selling(scene: Scene) -> None:
    """A price, a number, and what it comes to."""
    person(scene, "A")
    person(scene, "B")
    noun, price, number = scene.pick(COUNTED[:-7]), scene.random.below(6) + 2, scene.random.below(8) + 2
    total = price * number
    purse = total + scene.random.below(30)
    scene.many |= set() if purse - total == 1 else {"Rest"}
    scene.say(
        "{A} <sell> {things} at {place} of {town}.".replace("{things}", plural(noun)),
        "{when} {A} <open> a small shop near {place} and <sell> {things}.".replace("{things}", plural(noun)),
        f"At the market in {{town}} {{A}} <have> {plural(noun)} from {{place}}, [fresh|cheap|the best] of all.",
    )
    scene.say(
        f'"How much [is one {noun}|are the {plural(noun)}]?" {{B}} <ask B> {{A}}, {{mood}} as [ever|always].',
        f'"What do you want for one {noun}?" <ask B> {{B}}, who <come B> from {{place}}.',
        f'{{B}} <stop B> at the stall {{how}}. "What does {"an" if noun[0] in "aeiou" else "a"} {noun} cost '
        f'[{{present_day}}|here in {{town}}]?"',
    )
    scene.say(
        f'"{in_words(price)} coins each," {{A}} <answer>, "and they are [as good as those from {{town}}|better than '
        f'{{food}}|from the garden behind {{place}}]."',
        f'"One costs {in_words(price)} coins," {{A}} <say> {{how}}, "because [the road from {{town}} is long|there '
        f'was little rain near {{place}}]."',
    )
    scene.say(
        f"{{B}} <buy B> {quantity(number, noun)} and <pay B> {in_words(total)} coins.",
        f"So {{B}} <take B> {in_words(number)} of them for {in_words(total)} coins and <put B> them {{spot}} at home.",
        f'"Then I take {in_words(number)}," {{B}} <say B> and <give B> {{A.him}} {in_words(total)} coins.',
    )
    scene.say(
        f"{{^B.she}} <have B> {in_words(purse)} coins that day, so {in_words(purse - total)} <be Rest> left [in "
        f"{{B.her}} purse|for the {{trade}}|for some {{food}}].",
        f"Of {{B.her}} {in_words(purse)} coins {{B.she}} <keep B> {in_words(purse - total)}, [{{mood}} and "
        f"{{mood}}|for the way to {{place}}].",
    )
    thanks(scene)


def herd(scene: Scene) -> None:
    """Animals are counted in the evening; one is missing."""
    person(scene, "A", groups=True)
    animal, number, gone = scene.pick(HERD), scene.random.below(12) + 6, scene.random.below(4) + 1
    scene.bind("animals", "{colour} " + plural(animal))
    one = gone == 1
    scene.many |= set() if one else {"Gone"}
    scene.many |= set() if number - gone == 1 else {"Rest"}
    scene.bind("dog", "[dog|old dog|young dog|brown dog]")
    scene.say(
        f"{{A}} <have> {in_words(number)} {{animals}} and a {{dog}} on a farm near {{town}}.",
        f"On the hill above {{town}} {{A}} <keep> {in_words(number)} {{animals}}, and a {{dog}} <guard It> them.",
        f"{{when}} {{A}} <bring> {in_words(number)} {{animals}} from {{place}} to the stable, with {{A.her}} {{dog}}.",
    )
    scene.say(
        f"In the evening, when {{weather}}, {{A}} <count> only {in_words(number - gone)}.",
        f"But {{when}} there <be Rest> {in_words(number - gone)} in the stable: {quantity(gone, animal)} <be Gone> "
        "gone.",
        f"At {{place}} {{A}} <count> again, {{how}}: {in_words(number - gone)}, so {in_words(gone)} <be Gone> missing.",
    )
    scene.say(
        "The {dog} <run It> to {place}, and {A} <follow> it {how}.",
        "{A} <look> for {it} near {place}, behind {place}, and even in {room}.".replace(
            "{it}", "it" if one else "them"
        ),
        "The {dog} <bark It>, because it <smell It> {smell} near {place}.",
        "{^A.she} <ask> the {trade}, but the {trade} <have It> only seen a {colour} {single}.",
    )
    scene.say(
        f"{{^A.she}} <find> {'it' if one else 'them'} [asleep|quite happy|hungry|wet] [at {{place}}|in {{room}}], "
        f"beside a {{sort}} {{single}}.",
        f"There {'it' if one else 'they'} <be Gone>, [near {{place}}|between {{place}} and {{place}}], with "
        f"{'its' if one else 'their'} feet in the water.",
        f"At last the {{dog}} <find It> {'it' if one else 'them'} {{spot}} in {{room}} of the {{trade}}.",
    )
    scene.say(
        f"Now all {in_words(number)} {plural(animal)} <be Many> [in {{room}}|home|safe] again, and the {{dog}} <get "
        f"It> some {{food}}.",
        f'"{in_words(number - gone)} and {in_words(gone)} is {in_words(number)}," <say> {{A}} {{how}}, and <shut> the '
        f"{{colour}} gate.",
        f"{{A}} <lead> {'it' if one else 'them'} home, past {{place}}, so that there <be Many> {in_words(number)} "
        "again.",
    )
    scene.say(
        "That night the {dog} <sleep It> {spot}, and {A} <dream> of {subject}.",
        "{A} <build> a {sort} fence with {count} posts [near {place}|behind {room}].",
        "{^A.she} <drink> some {drink} in {room}, {mood} but {mood}.",
    )


def who_is_taller(scene: Scene) -> None:
    """Three are compared by two sentences; the third follows."""
    for name in "ABC":
        names = scene.pick((WOMEN, MEN))
        choice = scene.pick(names)
        while choice in scene.bound.values():
            choice = scene.pick(names)
        scene.bind(name, choice)
    more, most, less, least = scene.pick(
        (
            ("taller", "tallest", "shorter", "shortest"),
            ("older", "oldest", "younger", "youngest"),
            ("faster", "fastest", "slower", "slowest"),
            ("stronger", "strongest", "weaker", "weakest"),
            ("richer", "richest", "poorer", "poorest"),
            ("louder", "loudest", "quieter", "quietest"),
        )
    )
    scene.say(
        "{A}, {B} and {C} <live Many> in {town}, near {place}.",
        "{when} {A}, {B} and {C} <meet Many> at {place} and <talk Many> about {subject}.",
        "The {trade} of {town} <have It> three children, {A}, {B} and {C}.",
    )
    first, second = f"{{A}} <be> {more} than {{B}}", f"{{C}} <be> {less} than {{B}}"
    if scene.random.below(2):
        first, second = second, first
    scene.say(
        f"{first}, [everybody in {{town}} <know It>|as one <can It> see at {{place}}|said the {{trade}}].".replace(
            "said the", "<say It> the"
        ),
        f"In {{town}} they <say Many> that {first}, and [{{weather}}|nobody <doubt It> it at {{place}}].",
    )
    scene.say(
        f"And {second}, [though {{C}} <can> {{hobby}}|says the {{trade}}|which <be It> clear at {{place}}].".replace(
            "says the", "<say It> the"
        ),
        f"But {second}, [even when they <ride Many> {{by}}|even in {{room}}|as {{A}} <tell> the {{trade}}].".replace(
            "<ride Many> {by}", "<go Many> {by}"
        ),
    )
    scene.say(
        f'"Who [of you|of the three] is the {most}?" the {{trade}} <ask It> {{how}}. "[It is {{A}}|That is {{A}}]," '
        "<say Many> all of them.",
        f"So {{A}} <be> the {most} of the three, and {{C}} <be> the {least}, [at {{place}} and everywhere|which <make "
        f"It> {{C}} {{mood}}].",
        f'"Then {{C}} is {less} than {{A}}," the {{trade}} <say It>, {{mood}} and {{mood}}.',
    )
    scene.say(
        "Then they <go Many> to {place} together and <eat Many> {food}.",
        "{B} <be> {mood} about it and <begin> to {hobby}.",
        "{A} <give> {C} a {colour} {single}, and {B} <bring> {drink} from {room}.",
        "It <do It> not matter, for they all <like Many> to {hobby} {how}.",
    )
