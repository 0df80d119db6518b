"""Names of the layers in a block of fairseq, which HuggingFace's BART also uses."""

from __future__ import annotations

BLOCK = {
    "self.query": "self_attn.q_proj",
    "self.key": "self_attn.k_proj",
    "self.value": "self_attn.v_proj",
    "self.combine": "self_attn.out_proj",
    "self.norm": "self_attn_layer_norm",
    "cross.query": "encoder_attn.q_proj",
    "cross.key": "encoder_attn.k_proj",
    "cross.value": "encoder_attn.v_proj",
    "cross.combine": "encoder_attn.out_proj",
    "cross.norm": "encoder_attn_layer_norm",
    "expand": "fc1",
    "contract": "fc2",
    "feedforward.norm": "final_layer_norm",
}
