"""Scenes of how people live: journeys, work, letters, lessons, meals, places. Written for the book."""

from __future__ import annotations

from companion.corpus.grammar import Scene
from companion.corpus.people import HE, SHE, person, pronouns, thanks
from companion.corpus.words import TRADES

__all__: list[str] = []


def journey(scene: Scene) -> None:
    """From one town to another, and what is met on the way."""
    person(scene, "A", groups=True)
    scene.bind("home", "{town}")
    while scene.bound.get("goal", scene.bound["home"]) == scene.bound["home"]:
        scene.bind("goal", "{town}")
    scene.say(
        "{when} {A} <travel> from {home} to {goal} {by}.",
        "{A} <leave> {home} {when} and <go> to {goal} {by}, because of {subject}.",
        "It <be It> a long way from {home} to {goal}, and {A} <go> {by}.",
    )
    scene.say(
        "When {A.she} <leave>, {weather}.",
        "On the road {weather}, and {A.she} <think> of {subject}.",
        "In the hills {weather}, but {A} <go> on {how}.",
        "{^A.she} <take> {food}, {count} apples and a {sort} {single} along.",
    )
    scene.say(
        "At {place} {A.she} <meet> a {trade} with {count} {herd}, who also <want It> to see {goal}.",
        "Half way, near {place}, a {trade} from {town} <show It> {A.him} a [shorter|safer|quieter] road.",
        "At noon {A.she} <rest> beside {place} and <eat> some {food} {how}.",
        "After {count} hours {A.she} <come> to {place}, where nobody <speak It> but a {trade}.",
    )
    scene.say(
        '"How far is it to {goal}?" {A} <ask> {how}. "[Only|About|Nearly] {count} miles, [past {place}|always along '
        'the river|and then over the hill]."',
        '"Are you going to {goal} too?" {A} <ask> the {trade} [at {place}|on the road]. "No, [to {town}|home to '
        '{town}], but [I know {place} there well|my cousin lives near {place}]."',
    )
    scene.say(
        "{goal} <have It> {feature} and {feature} on every street, it <seem It>.",
        "In {goal} {A} <see> a house with {feature} and {feature}.",
        "When {A} <come> to {goal}, {weather}.",
    )
    scene.say(
        "{^A.she} <sleep> at the inn of {goal}, in a room with {feature}.",
        "There {A.she} <buy> a {sort} {single} for {count} coins and <write> a letter home to {home}.",
        "{A} <stay> in {goal} for {count} days and <dream> of {home}.",
        "{count} days later {A.she} <be> back in {home}, {mood} but {mood}.",
    )


def trade(scene: Scene) -> None:
    """What somebody does all day, or did."""
    kind = scene.pick(TRADES)
    scene.bind("A", f"the {kind}")
    pronouns(scene, "A", scene.pick((SHE, HE)))
    scene.bind("town", "{town}")
    person(scene, "B", groups=True)
    scene.say(
        "{A} of {town} <live> near {place} in a house with {feature}.",
        f"There <be> a {kind} in {{town}} who <have> a house with {{feature}} and {{feature}}.",
        "{when} {A} of {town} <wake> early and <go> to {place}.",
    )
    scene.say(
        "{^A.she} <begin> to work before {weather_noun} and <stop> when {A.she} <be> {mood}.",
        "{^A.she} <carry> {A.her} {tools} to {place} and <work> there {how}.",
        "Before work {A.she} <drink> {drink} and <read> about {subject}.",
        "{^A.her} hands <be Many> {mood_hands}, and {A.her} {tools} <be Many> {sort}.",
    )
    scene.say(
        "In {room} {A.she} <keep> {count} {herd} and a {colour} {single}.",
        "{^A.she} <have> {count} helpers from {town}, who <know Many> how to {hobby}.",
        "People <come Many> from {place} and from {place} to see {A.her} {single}.",
        "After work {A.she} <like> to {hobby}, [{how}|even in winter|as {A.her} father did].",
    )
    scene.say(
        "{when} {B} <come B> to {A} with a {colour} {single} that <be It> broken.",
        '{B} <ask B> {A} {how}: "Can you make a {colour} {single} for me?"'
        if "B" not in scene.many
        else '{B} <ask B> {A} {how}: "Can you make {count} {colour} chairs for us?"',
        "{B} <watch B> {A} for {count} hours and <ask B> about {subject}.",
    )
    scene.say(
        '"That will take {count} days," <say> {A}, "and it will cost {count} coins, [no more|or some {food}]."',
        '"[Of course|Gladly|Not today]," {A} <answer>, "but first I must go to {place} with my {tools}."',
        '"[My mother|My uncle|An old {trade}] taught me to {hobby}," {A} <say>, "[at {place}|in {room}], when I was '
        '{count} years old."',
    )
    scene.say(
        "{^B.she} <be B> {mood} about that, and <go B> back to {place} {how}.",
        "In the evening {A} and {B} <sit Many> in {room}, <eat Many> {food} and <talk Many> about {subject}.",
        "{^A.she} <be> never {mood} for long, because {A.she} <can> always {hobby}.",
    )


def letter(scene: Scene) -> None:
    """A letter and its answer."""
    person(scene, "A")
    person(scene, "B")
    scene.bind("here", "{town}")
    scene.bind("S", "{subject}")
    scene.say(
        "{when} {A} <write> a letter to {B}, who <live B> in {here} near {place}.",
        "{A} <sit> in {room} and <write> to {B} in {here}, because {A.she} <be> {mood}.",
        "From {here} {B} <send B> a letter to {A} in {town}, and {A} <answer> {when}.",
    )
    scene.say(
        '"Dear {B}," {A.she} <write> {how}, "here in {town} {now_weather}, and I think of {S}."',
        '"Dear {B}," the letter <begin It>, "I have {count} {herd} now, and a {colour} {single} {spot}."',
        '"Dear {B}, how are you in {here}?" it <begin It>. "I am {mood}, for I have seen {S}."'.replace(
            "{S}", "{place} again"
        ),
    )
    scene.say(
        '"[Every day|Every evening|On Sundays] I {hobby}," {A.she} <add>, "[and|but] I often think of you and '
        '{place}."',
        '"Do you still {hobby} with the {trade}?" {A.she} <ask> at the end of the letter.',
        '"Please send me [a {sort} {single}|{count} walnuts|some {food}]," {A.she} <write>, "and come to see me at '
        '{place}."',
    )
    scene.say(
        "The letter <need It> {count} days from {town}, because {weather}.",
        "{B} <find B> it {spot} and <read B> it {count} times, {how}.",
        "A {trade} <carry It> the letter to {here} {by}, and {B} <get B> it {when}.",
    )
    scene.say(
        '"Dear {A}," {B} <answer B>, "I am {mood} too, and I will come {by}, before [winter|spring|the harvest]."',
        '"Dear {A}, thank you," {B.she} <reply B>. "In {here} {now_weather}, and the {trade} wants to {hobby}."',
        '"Dear {A}," {B.she} <write B> back {how}, "I would like to tell you about {S}, but [not in a letter|not '
        'yet]."',
    )
    scene.say(
        "{A} <keep> the answer {spot}, beside a {sort} {single}.",
        "When {A} <read> it, {A.she} <feel> {mood}, and then {mood}.",
        "{A} <show> the answer to the {trade}, who <ask It> about {S}.",
    )


def lesson(scene: Scene) -> None:
    """One teaches another; it does not work at once."""
    person(scene, "A")
    person(scene, "B", groups=True)
    scene.bind("skill", "{hobby}")
    scene.say(
        "{when} {A} <teach> {B} to {skill} [in {room}|at {place}].",
        "{B} <want B> to learn to {skill}, so {B.she} <go B> to {A} near {place}.",
        "{A} <know> better than the {trade} of {town} how to {skill}.",
    )
    scene.say(
        '"First you must [watch me|listen well|be patient]," {A} <say> {how}, "and then you need a {sort} {single}."',
        '"It is not hard to {skill}," {A} <explain>, "but it takes {count} [days|weeks|months] and [some|a lot of] '
        '{drink}."',
        '"Why do you want to {skill}?" {A} <ask> {how}, and <look> at {B.her} {sort} {tools}.',
    )
    scene.say(
        "{B} <try B> {how}, but after {count} minutes {B.she} <be B> {mood}.",
        "The first time {B} <break B> a {single} and <drop B> the {food} {spot}.",
        "On the first day {B} <learn B> little, [because {weather}|for {B.she} <think B> of {subject}].",
    )
    scene.say(
        '"[Never mind|Once more|Do not worry]," <say> {A}, "I needed {count} [weeks|months|years] before I could '
        '{skill}."',
        "{A} <show> {B.him} again, {how}, and then {count} times more.",
        "{A} <laugh>, but {A.she} <be> not {mood}, and they <have Many> some {drink} in {room}.",
    )
    scene.say(
        "After {count} [days|weeks|lessons] {B} <can B> {skill} [as well as {A}|better than the {trade}|even in "
        "{room}].",
        "{^B.she} <go B> to {place} every day, until {B.she} <be B> able to {skill} {how}.",
        "Now {B} <teach B> the {trade} from {town}, and {A} <be> {mood}.".replace("Now", "In the end"),
    )
    thanks(scene)


def meal(scene: Scene) -> None:
    """Something is cooked, and somebody comes."""
    person(scene, "A", groups=True)
    person(scene, "B")
    scene.bind("dish", "{food}")
    scene.say(
        "{when} {A} <cook> {dish} in {room}, with {count} onions and a little {drink}.",
        "{A} <invite> {B} to eat {dish} at {A.her} house near {place}.",
        "The whole street near {place} <smell It> of {dish}, because {A} <cook> {when}.",
    )
    scene.say(
        "The pot <be It> {colour} and [so {size}|not {size}], and it <stand It> {spot}.",
        "{^A.she} <cut> {count} carrots with a {sort} knife and <think> of {subject}.",
        "Outside {weather}, but in {room} it <be It> {warm}.",
        "{^A.she} <have> no salt, so {A.she} <get> some from the {trade} at {place}.",
    )
    scene.say(
        "At {hour} o'clock {B} <knock B> at the {colour} door, {mood} and {mood}.",
        "{B} <come B> {by}, with a {sort} {single} under {B.her} arm.",
        "{B} <be B> late, because {B.she} <have B> stopped at {place} to {hobby}.",
    )
    scene.say(
        '"[Sit down|Come in|Welcome]," <say> {A}, "the {dish} is [almost ready|on the table|still {warm}], and there '
        'is {drink} [in {room}|for you|too]."',
        '"What do I smell," {B} <ask B> {how}, "is it {dish} or {food}?"',
        '"I have not eaten {dish} since I was in {town}," <say B> {B}, and <take B> {count} spoons [at once|by '
        "mistake].",
    )
    scene.say(
        "They <eat Many> {dish} with {food} and <drink Many> {count} cups of {drink}.",
        "{B} <eat B> {count} plates of {dish}, and {A} only one, for {A.she} <be> {mood}.",
        "The {dish} <be It> [too hot|a little burnt|better than at the inn], but {B} <say B> nothing and <talk B> "
        "about {subject}.",
    )
    scene.say(
        "{B} <wash B> the plates, and {A} <put> them {spot}, {how}.",
        "Later {A} <show> {B} how to {hobby}, and {B} <stay B> until {hour} o'clock.",
        "What <be It> left, {A} <give> to the {trade} of {town} [{how}|and to {count} cats].",
    )


def place(scene: Scene) -> None:
    """What there is to see somewhere, one thing and several."""
    scene.bind("P", "{place}")
    scene.bind("town", "{town}")
    person(scene, "A")
    scene.say(
        "{^P} of {town} <have It> {feature} and {feature}.",
        "In {town} everybody <know It> {P}, for it <have It> {feature}.",
        "When {weather}, {A} <like> to go to {P} of {town}.",
    )
    scene.say(
        "On the left there <be Many> {count} {colour} benches, and on the right there <be It> a {sort} {single}.",
        "There <be Many> {count} trees around it and a {size} stone in the middle, {colour} with age.",
        "{count} {herd} <stand Many> beside it, and one {colour} dog <lie It> between them.",
        "The walls <be Many> {colour}, the door <be It> {colour}, and the stairs <be Many> {size}.",
    )
    scene.say(
        "Long ago a {trade} <find It> {count} coins there, under a {sort} {single}.",
        "[A|Many a] {trade} from {town} <come It> here to {hobby}, {how}.",
        "Children <play Many> there {when}, and the {trade} <sell It> them {food}.",
        "From there one <can It> see {place}, {place} and, far away, the roofs of Ashford.",
    )
    scene.say(
        "{A} <sit> there {when}, with {A.her} {sort} {single}, and <think> of {subject}.",
        '"I could stay here for {count} [years|days|hours]," {A} <say> {how}, "if only there were some {drink} [and '
        '{food}|too]."',
        "{A} <be> {mood} there, though nobody <know It> why, not even the {trade}.",
    )
    scene.say(
        "At night {weather}, and {P} <be It> [empty|dark|quiet] but for {count} {herd}.",
        "In the evening the {trade} <shut It> the {colour} gate, and {A} <go> home {how}.",
        "When the {trade} <ring It> the bell {count} times, {A} <go> home to {hobby}.",
    )
