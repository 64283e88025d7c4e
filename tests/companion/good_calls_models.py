"""Good calls of caches, models and generation: see ``test_typing_runtime.py``."""

import torch

from companion import filters
from companion.cache import KVCache, RollingKVCache
from companion.embedding import TokenEmbedding
from companion.generate import beam_search, greedy, pad_left, sample
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig

for cache in (KVCache(8, 2), RollingKVCache(3, 2, 2)):
    for n in (1, 2):
        cache.update(0, torch.rand(2, 1, n, 4), torch.rand(2, 1, n, 6))
        cache.update(1, torch.rand(2, 1, n, 4), torch.rand(2, 1, n, 6))
    assert cache.length == cache.seen(1) == 3
    cache.reorder(torch.tensor([1, 0, 0]))
    cache.crop(2)
    cache.reset()
    cache.keep(0, lambda: (torch.rand(1, 1, 5, 4), torch.rand(1, 1, 5, 4)))

small = {"vocab_size": 11, "d_model": 8, "num_heads": 2, "num_layers": 1, "max_length": 40}
ids = torch.tensor([[1, 2, 3], [0, 4, 5]])
start = torch.tensor([[1], [1]])
real = torch.tensor([[True, True, True], [False, True, True]])
for positions in ("sinusoidal", "learned", "rotary", "alibi", "none"):
    config = TransformerConfig(**small, positions=positions, pad_id=0, norm="rms", num_kv_heads=1)
    gpt, seq2seq = DecoderOnly(config).eval(), Seq2SeqTransformer(config).eval()
    encoder = EncoderOnly(config, masked_lm=True)
    repr((gpt, seq2seq, encoder))
    encoder.logits(encoder(ids))
    encoder(ids.int(), real=real)
    gpt(ids, real=real)
    seq2seq(ids, ids, source_real=real, target_real=real)
    with torch.no_grad():
        cache = gpt.new_cache(20)
        gpt(ids, real=real, cache=cache)
        gpt(ids[:, :1] + 1, real=torch.cat([real, real[:, :1] | True], 1), cache=cache)
        memory = seq2seq.encode(ids)
        seq2seq.decode(ids, memory, source_real=ids != 0, cache=seq2seq.new_cache(5), memory_cache=seq2seq.new_cache(5))
    for use_cache in (True, False):
        greedy(gpt, ids, 2, end_id=7, real=real, use_cache=use_cache)
        sample(gpt, ids, 2, temperature=0.5, top_k=3, top_p=0.9, seed=0, use_cache=use_cache)
        beam_search(gpt, ids, 2, num_beams=2, length_penalty=0.5, end_id=7, use_cache=use_cache)
        greedy(seq2seq, start, 2, source=ids, source_real=real, use_cache=use_cache)
        beam_search(seq2seq, start, 2, source=ids, use_cache=use_cache)
plain = DecoderOnly(TransformerConfig(**small, tie_embeddings=False, norm_first=False, bias=False))
sample(plain, ids, 1, seed=torch.Generator())
typed = TransformerConfig(**small, num_token_types=2, embedding_norm=True, embedding_scale=True)
TokenEmbedding(typed)(ids, torch.arange(3), ids % 2)
EncoderOnly(typed)(ids, token_types=ids % 2)
pad_left([[1, 2], [3]])
pad_left([torch.tensor([1, 2]), torch.tensor([3])], 4, device="cpu")
filters.top_k(torch.rand(2, 5), 3)
filters.top_p(torch.rand(5), 0.5)
