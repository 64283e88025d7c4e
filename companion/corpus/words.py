"""The words of the book's corpus, written for it: who, what, where, and how verbs and nouns change their form."""

from __future__ import annotations

__all__: list[str] = []

WOMEN = (
    "Anna Clara Dora Edith Flora Greta Hanna Ida Julia Karin Lena Maria Nora Olga Paula Rosa Sara Tilda Vera Wilma"
).split()
MEN = (
    "Adam Bruno Carl David Emil Felix Georg Hugo Ivan Jonas Karl Leo Martin Nils Otto Paul Rolf Simon Tom Victor"
).split()
TRADES = (
    "baker carpenter doctor farmer fisher gardener miller painter potter shepherd smith tailor teacher weaver "
    "postman clockmaker librarian sailor cook mason"
).split()
GROUPS = (
    "the twins|the two sisters|the three brothers|the children|the neighbours|the farmers|the sailors|the students|"
    "the old friends|the cousins"
).split("|")

# Singular and plural of what can be counted, where an s is not enough.
IRREGULAR_PLURALS = {
    "loaf": "loaves",
    "peach": "peaches",
    "cherry": "cherries",
    "fish": "fish",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "radish": "radishes",
    "brush": "brushes",
    "box": "boxes",
    "sheep": "sheep",
    "goose": "geese",
    "pony": "ponies",
}

# Past, then the present of one ("she takes"); of many it is the verb itself. Regular verbs are not listed.
IRREGULAR_VERBS = {
    "be": ("was were", "is are"),
    "have": ("had", "has"),
    "do": ("did", "does"),
    "go": ("went", "goes"),
    "say": ("said", "says"),
    "take": ("took", "takes"),
    "give": ("gave", "gives"),
    "find": ("found", "finds"),
    "lose": ("lost", "loses"),
    "buy": ("bought", "buys"),
    "sell": ("sold", "sells"),
    "bring": ("brought", "brings"),
    "put": ("put", "puts"),
    "leave": ("left", "leaves"),
    "keep": ("kept", "keeps"),
    "come": ("came", "comes"),
    "run": ("ran", "runs"),
    "sit": ("sat", "sits"),
    "stand": ("stood", "stands"),
    "see": ("saw", "sees"),
    "know": ("knew", "knows"),
    "think": ("thought", "thinks"),
    "tell": ("told", "tells"),
    "write": ("wrote", "writes"),
    "read": ("read", "reads"),
    "build": ("built", "builds"),
    "make": ("made", "makes"),
    "fall": ("fell", "falls"),
    "blow": ("blew", "blows"),
    "begin": ("began", "begins"),
    "wake": ("woke", "wakes"),
    "sleep": ("slept", "sleeps"),
    "eat": ("ate", "eats"),
    "drink": ("drank", "drinks"),
    "ride": ("rode", "rides"),
    "meet": ("met", "meets"),
    "feel": ("felt", "feels"),
    "lie": ("lay", "lies"),
    "hang": ("hung", "hangs"),
    "teach": ("taught", "teaches"),
    "cut": ("cut", "cuts"),
    "get": ("got", "gets"),
    "pay": ("paid", "pays"),
    "shine": ("shone", "shines"),
    "speak": ("spoke", "speaks"),
    "send": ("sent", "sends"),
    "break": ("broke", "breaks"),
    "stop": ("stopped", "stops"),
    "ring": ("rang", "rings"),
    "show": ("showed", "shows"),
    "shut": ("shut", "shuts"),
    "carry": ("carried", "carries"),
    "lead": ("led", "leads"),
    "drop": ("dropped", "drops"),
    "travel": ("travelled", "travels"),
    "can": ("could", "can"),
}

SINGLE_THINGS = (
    "lamp key ring basket violin map letter clock hammer kettle mirror blanket lantern notebook ladder coat hat "
    "bicycle compass drum flute spade rope bell teapot purse umbrella telescope wheel bucket needle comb chair"
).split()
PLURAL_THINGS = "scissors boots gloves glasses tools letters maps candles paints seeds ropes skates".split()
COUNTED = (
    "apple pear plum peach cherry egg loaf potato tomato radish onion carrot candle button marble shell stamp nail "
    "brush ribbon walnut lemon fish coin brick stone postcard pencil bottle box"
).split()
HERD = "sheep goat hen goose cow pony duck rabbit".split()

# What a slot in braces may become, if the scene says nothing else. A value may have slots of its own.
WORDS: dict[str, list[str]] = {
    "place": (
        "the market|the harbour|the mill|the library|the station|the bridge|the school|the bakery|the forest|"
        "the lighthouse|the museum|the square|the river|the workshop|the farm|the hill|the orchard|the post office|"
        "the chapel|the well|the theatre|the stable|the pond|the inn|the tower|the vineyard|the ferry|the quarry"
    ).split("|"),
    "room": (
        "the kitchen|the cellar|the attic|the hall|the bedroom|the shed|the parlour|the pantry|the stable|the barn|"
        "the workshop|the loft|the study"
    ).split("|"),
    "spot": (
        "on the table|under the bed|behind the door|on the shelf|in the drawer|by the window|beside the stove|"
        "in the chest|on the stairs|under the bench|behind the curtain|in the big basket|on the windowsill|"
        "in the old cupboard|under a pile of blankets|between two books"
    ).split("|"),
    "size": "small large tiny heavy narrow wide tall round".split(),
    "colour": "red blue green yellow white black brown grey silver golden bronze".split(),
    "sort": "old new broken clean dusty pretty plain strange lovely wooden".split(),
    "mood": (
        "happy tired hungry calm proud sad curious worried cheerful thoughtful angry glad patient lazy puzzled"
    ).split(),
    "how": (
        "slowly|quickly|quietly|carefully|gladly|at once|without a word|in a hurry|with a smile|as usual|"
        "with great care|all alone"
    ).split("|"),
    "past": (
        "yesterday|last week|last Monday|on Tuesday|on Friday|one summer|one winter evening|that morning|last spring|"
        "on the first day of autumn|one rainy afternoon|on Sunday|one night in May|two days ago|a year ago|in June"
    ).split("|"),
    "present": (
        "today|this morning|every Monday|every summer|on most days|this week|in winter|every evening|after school|"
        "at noon|on Sundays|before breakfast|every other Friday|when the weather is fine|now and then|in spring"
    ).split("|"),
    "weather": (
        "the sun <shine It> on {place}|rain <fall It> on the roofs of {town}|a cold wind <blow It> from {place}|"
        "snow <lie It> on {place}|mist <hang It> over {place}|the sky over {town} <be It> {sky}|"
        "it <be It> {warm} in {town}|thunder <roll It> behind {place}|it <rain It> in {town}|"
        "the air near {place} <smell It> of {smell}"
    ).split("|"),
    "sky": "grey|blue|clear|dark|pink|pale|full of clouds|without a cloud|almost white".split("|"),
    "warm": "warm|cold|hot|cool|damp|dry|far too hot|a little cold|unusually warm".split("|"),
    "smell": "salt|smoke|bread|roses|hay|rain|apples|tar|wet leaves|fresh paint".split("|"),
    "town": "Ashford Birkdale Coldwater Dunmore Elmsby Fernhill Greyport Holmwood Ivybridge Larkfield Millbrook "
    "Northgate Oakham Pinewick Redcliff Stonebury Thornley Westbay".split(),
    "by": "on foot|by train|by boat|on a borrowed bicycle|in a small cart|on the back of a mule|by coach".split("|"),
    "food": "bread|soup|cheese|porridge|stew|rice|fish|cake|jam|honey|butter|apple pie|dark bread".split("|"),
    "drink": "tea|milk|water|cider|coffee|hot chocolate|apple juice".split("|"),
    "feature": (
        "{count} windows|a {colour} door|a {sort} roof|a clock that <be It> always late|a {size} staircase|"
        "walls of {colour} stone|a {sort} gate|a bell that nobody <ring It>|a {size} garden behind it"
    ).split("|"),
    "count": "two three four five six seven eight nine ten eleven twelve".split(),
    "subject": (
        "the weather|the price of {food}|the new {trade}|the road to {town}|the {sort} {single} in {room}|"
        "the old days|a letter from {town}|the stars|the harvest|a story about {town}|the best way to cook {food}|"
        "the {colour} boat at {place}|a dream"
    ).split("|"),
    "present_day": "today|this morning|yesterday|an hour ago|on Monday|last night".split("|"),
    "hour": "two three four five six seven eight nine ten".split(),
    "herd": [IRREGULAR_PLURALS.get(animal, animal + "s") for animal in HERD],
    "tools": "tools brushes knives boxes ropes boots papers books".split(),
    "weather_noun": "sunrise|breakfast|the rain|the first train|the others".split("|"),
    "mood_hands": "rough strong white red warm quick".split(),
    "now_weather": (
        "the sun shines on {place}|it rains on {place}|the wind comes from {place}|snow lies on {place}|"
        "it is {warm} near {place}|the sky is {sky}"
    ).split("|"),
    "trade": list(TRADES),
    "single": list(SINGLE_THINGS),
    "hobby": (
        "paint boats|mend old clocks|play the flute|collect stamps|read about the stars|draw maps|bake {food}|"
        "grow {colour} roses|write long letters|sing in a choir|swim in the river|carve {size} animals"
    ).split("|"),
}
