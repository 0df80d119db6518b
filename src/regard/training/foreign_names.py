"""Names of settings in fairseq, OpenNMT, JoeyNMT, Sockeye and HuggingFace, for suggestions.

They are not accepted, since their meaning may differ slightly; errors suggest our setting.
"""

from __future__ import annotations

_FOREIGN_NAMES_BY_PATH = {
    "out": "model_dir output output_dir save_dir save_model",
    "init_from": "load_model params restore_file train_from",
    "data.batch_tokens": "batch_size max_tokens per_device_train_batch_size tokens_per_batch",
    "data.num_workers": "dataloader_num_workers",
    "model.d_model": (
        "embed_dim embedding_dim encoder_embed_dim hidden_size n_embd rnn_size "
        "transformer_model_size"
    ),
    "model.num_encoder_layers": "enc_layers n_layer num_hidden_layers",
    "model.num_decoder_layers": "dec_layers n_layer num_hidden_layers",
    "model.num_layers": "n_layer num_hidden_layers",
    "model.num_heads": (
        "attention_heads encoder_attention_heads n_head num_attention_heads "
        "transformer_attention_heads"
    ),
    "model.ffn_dim": (
        "dim_feedforward encoder_ffn_dim encoder_ffn_embed_dim ff_size intermediate_size n_inner "
        "transformer_ff"
    ),
    "model.activation": "activation_fn activation_function hidden_act",
    "model.dropout": "hidden_dropout_prob resid_pdrop",
    "model.attention_dropout": "attention_probs_dropout_prob attn_pdrop",
    "model.activation_dropout": "relu_dropout",
    "model.tied_embeddings": (
        "share_all_embeddings share_embeddings tie_word_embeddings tied_embeddings_all tied_softmax"
    ),
    "model.norm_order": "encoder_normalize_before layer_norm_position pre_norm",
    "model.max_positions": "block_size max_position_embeddings max_source_positions n_positions",
    "training.seed": "random_seed",
    "training.max_steps": (
        "epochs max_epoch max_epochs max_update max_updates num_epochs num_train_epochs train_steps"
    ),
    "training.gradient_accumulation_steps": (
        "accum_count batch_multiplier update_freq update_interval"
    ),
    "training.optimizer": "optim",
    "training.learning_rate": "initial_learning_rate lr",
    "training.schedule": (
        "decay_method learning_rate_scheduler_type lr_scheduler lr_scheduler_type scheduling"
    ),
    "training.warmup_steps": "learning_rate_warmup num_warmup_steps warmup_updates",
    "training.adam_epsilon": "adam_eps",
    "training.max_grad_norm": "clip_grad_norm gradient_clipping_threshold",
    "training.precision": "amp bf16 fp16 mixed_precision model_dtype",
    "training.checkpoint_every": (
        "checkpoint_interval eval_steps save_checkpoint_steps save_interval save_interval_updates "
        "save_steps valid_every valid_freq valid_steps validate_every validate_interval "
        "validate_interval_updates validation_every validation_freq"
    ),
    "training.keep_checkpoints": (
        "keep_checkpoint keep_last_epochs keep_last_params save_total_limit"
    ),
    "training.patience": "early_stopping early_stopping_patience max_num_checkpoint_not_improved",
    "training.log_every": "log_interval logging_freq logging_steps report_every",
    "tracking.log_to": "report_to",
    "tracking.project": "wandb_project",
    "tracking.name": "run_name",
}
FOREIGN_NAMES = {
    name: tuple(path for path, names in _FOREIGN_NAMES_BY_PATH.items() if name in names.split())
    for names_of_path in _FOREIGN_NAMES_BY_PATH.values()
    for name in names_of_path.split()
}
