"""Good calls of tasks and training: see ``test_typing_runtime.py``."""

import matplotlib
import torch

from companion import accuracy, corpus, losses, plots, tasks, training
from companion.masked import mask_tokens
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.splitmix import SplitMix
from companion.vocabulary import Vocabulary, pad

matplotlib.use("agg")
random = SplitMix(3)
random.bits(2)
random.integers(10)
random.integers(10, (2, 3))
random.uniform((0, 3))
random.uniform()
random.permutations(2, 5)
random.below(7)

letters = Vocabulary("abc")
letters.decode(letters.encode("cab"))
letters.decode(torch.tensor([5, 4]))
pad([[1, 2], [3]], length=4, left=True)

small = {"d_model": 8, "num_heads": 2, "num_layers": 1, "pad_id": 0}
for task in (tasks.copy(5, 4), tasks.reverse(5, 4, 2), tasks.repeats(5, 12, min_period=2, max_period=4)):
    batch = task.batch(3, seed=1)
    batch.to("cpu").to(torch.device("cpu"))
    next(iter(task.batches(3)))
    config = TransformerConfig(vocab_size=task.vocab_size, **small)
    made = [DecoderOnly(config) if isinstance(batch, tasks.TextBatch) else Seq2SeqTransformer(config)]
    for model in made:
        history = training.train(
            model, task.batches(3), steps=2, warmup=1, clip=1.0, label_smoothing=0.1, progress=False
        )
        history.to_dict()
        accuracy.accuracy(model, batch)
        losses.predictions(model, batch)
        assert losses.token_loss(model, batch).mean > 0
for task in (tasks.dates(), tasks.dates(held_out=True), tasks.char_corpus(8), tasks.char_corpus(8, held_out=True)):
    next(iter(task.batches(3, seed=1))).to("cpu")
    task.vocabulary.decode(task.batch(2)[0][0])
tasks.dates().pair(2021, 3, 3, "{d}/{Mon}/{yy}").to("cpu")
text = corpus.corpus(2_000, seed=1)
corpus.sentences(corpus.split_paragraphs(text, 3)[1])
own = tasks.char_corpus(8, text="a b\n\n" * 12)
own.decode(own.encode("ab"))
own.decode(own.ids)
for made in (tasks.Sequences(5, 4, None, backwards=True), tasks.Repeats(5, 9, 2, 3)):
    made.batch(2)
assert isinstance(own, tasks.CharCorpus)
assert isinstance(tasks.dates(), tasks.Dates)
assert isinstance(own, tasks.Task)

labels = tasks.copy(5, 4).batch(3).labels()
encoder = EncoderOnly(TransformerConfig(vocab_size=9, **small), masked_lm=True)
losses.token_loss(encoder, labels, label_smoothing=0.1)
mask_tokens(labels.ids, labels.real, vocab_size=9, random=random)

logits, ids = torch.rand(2, 3, 5), torch.tensor([[0, 1, 2], [3, 4, 0]])
losses.cross_entropy(logits, ids, ids != 0)
losses.cross_entropy(logits, ids)
accuracy.token_accuracy(logits, ids, ids != 0)
accuracy.sequence_accuracy(logits, ids)
training.learning_rate(3, lr=0.1, steps=10, warmup=2, schedule="cosine", floor=0.1)
training.seed_everything(1)
training.make_optimizer(encoder, lr=0.1, weight_decay=0.0, betas=(0.9, 0.99))

history = training.History([1, 2, 3], [3.0, 2.0, 1.0])
history.series("loss")
axes = history.plot("loss", label="one", smooth=2)
plots.curves({"two": [1.0, 2.0], "three": torch.tensor([3.0, 4.0])}, [0, 10], log=True, ax=axes)
