"""What HuggingFace, fairseq, Marian, OpenNMT, Sockeye and CTranslate2 call what a search is told.

A name from there is not accepted, since its meaning may differ a little; it is answered with ours.
"""

from __future__ import annotations

LENGTH = "max_extra with max_ratio=0 (in `generate`: max_tokens)"
_THEIRS = {
    "beam_size": "beam beam_width beams n_beam num_beam num_beams",
    "top_beams": "n_best nbest nbest_size num_hypotheses num_return_sequences return_n_best",
    "length_penalty": "alpha beam_alpha len_penalty length_penalty_alpha lenpen normalize",
    "patience": "beam_search_stop early_stopping stop_early",
    "scores": "output_scores print_scores return_scores with_scores",
    "max_ratio": "max_len_a max_length_factor max_length_ratio",
    "max_extra": "max_len_b",
    LENGTH: "max_decoding_length max_len max_length max_new_tokens max_output_length "
    "max_target_length",
    "min_length": "min_decoding_length min_len min_new_tokens min_output_length",
    "sample": "do_sample output_sampling sampling",
    "temperature": "random_sampling_temp sampling_temperature softmax_temperature",
    "top_k": "random_sampling_topk sampling_topk topk",
    "top_p": "nucleus random_sampling_topp sampling_topp topp",
    "seed": "random_seed",
    "batch_size": "buffer_size max_batch_size mini_batch per_device_eval_batch_size",
    "prefixes": "forced_prefix prefix prefix_tokens target_prefix target_prefixes",
    "attention": "output_attentions replace_unknowns return_attention",
}
OTHER_NAMES = {theirs: (ours,) for ours, every in _THEIRS.items() for theirs in every.split()}
